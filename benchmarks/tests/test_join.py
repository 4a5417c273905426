"""The joins at a tiny size, and where their times cross."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from benchmarks.join import find_crossover, measure
from pyspark.sql import SparkSession


def points(*ratios: float) -> list[dict[str, Any]]:
    return [{"delta": delta, "ratio": ratio} for delta, ratio in zip((0.01, 0.1, 1.0), ratios, strict=True)]


@pytest.mark.parametrize(
    ("ratios", "expected"),
    [
        ((0.5, 1.0, 2.0), 0.1),
        ((0.1, 10.0, 20.0), 0.0316),
        ((0.2, 0.5, 0.9), None),
        ((1.1, 1.5, 2.0), None),
    ],
)
def test_the_crossover_lies_between_the_points_around_it(ratios: tuple[float, ...], expected: float | None) -> None:
    assert find_crossover(points(*ratios)) == expected


def test_all_joins_are_equal(spark: SparkSession, tmp_path: Path) -> None:
    document = measure(tmp_path, rows=300, rounds=1, shares=(0.1,), on_progress=lambda _: None)
    (point,) = document["points"]
    assert point["equal"] is True
    assert point["delta"] == 0.1
    assert all(point[f"{join}_s"] > 0 for join in ("full", "incremental", "declared"))
    assert point["ratio"] == pytest.approx(point["incremental_s"] / point["full_s"], rel=0.05)
