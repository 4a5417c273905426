"""The measurement of keyed tasks runs batches on the driver and in workers."""

from __future__ import annotations

from pathlib import Path

from benchmarks.keyed import measure
from pyspark.sql import SparkSession


def test_both_places_are_timed(spark: SparkSession, tmp_path: Path) -> None:
    (point,) = measure(tmp_path, spark, sizes=[50], rounds=1)
    assert point["rows"] == 50
    assert point["driver_ms"] > 0
    assert point["workers_ms"] > 0
