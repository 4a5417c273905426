"""The sweep of choices at a tiny size."""

from __future__ import annotations

from pathlib import Path

from benchmarks.choices import measure
from pyspark.sql import SparkSession


def test_a_point_has_both_modes_with_measured_and_expected_seconds(spark: SparkSession, tmp_path: Path) -> None:
    document = measure(tmp_path, rows=300, rounds=1, only=["sum"], shares=(0.1,), on_progress=lambda _: None)
    (point,) = document["points"]
    assert document["cases"] == 1
    assert {point["chosen"], point["other"]} in ({"incremental", "batch"}, {"incremental", "recompute"})
    assert all(point[f"{prefix}{figure}"] > 0 for prefix in ("", "other_") for figure in ("seconds", "expected"))
    assert point["rows"] == 858  # 300, two rounds of 0.1, 10 and 50 %, four tenths, and a tenth of everything
