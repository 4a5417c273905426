"""The sweep of choices at a tiny size."""

from __future__ import annotations

from pathlib import Path

from benchmarks.choices import measure
from pyspark.sql import SparkSession

from tidemill.algebra.program import RefreshMode


def test_a_point_has_all_modes_with_measured_and_expected_seconds(spark: SparkSession, tmp_path: Path) -> None:
    document = measure(tmp_path, rows=300, rounds=1, only=["above mean"], shares=(0.1,), on_progress=lambda _: None)
    (point,) = document["points"]
    assert document["cases"] == document["unseen"]["cases"] == 1
    assert point["chosen"] in list(RefreshMode)
    assert point["fastest_s"] == min(point[mode] for mode in RefreshMode) > 0
    assert point[f"{point['chosen']}_expected"] > 0
    assert point["rows"] > 300
