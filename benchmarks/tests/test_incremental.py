"""The search workflow at a tiny size, and the distribution of its data."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks import incremental
from benchmarks.incremental import measure
from benchmarks.search import Web
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F


def test_a_point_has_every_figure_and_equal_results(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(incremental, "UNCOUNTED_ROUNDS", 1)
    messages: list[str] = []
    point = measure(tmp_path, pages=500, delta=0.02, rounds=1, warm_up=1, on_progress=messages.append)
    assert point["equal"] is True
    assert (point["pages"], point["delta"], point["rounds"]) == (500, 0.02, 1)
    figures = ("full_s", "incremental_s", "full_cpu_s", "incremental_cpu_s", "read_s", "read_compacted_s", "peak_mb")
    assert all(point[name] > 0 for name in figures)
    assert point["variant"]
    assert [line.partition(":")[0] for line in messages[1:]] == [
        "warming up with 1 refreshes",
        "warm-up",
        "round 1 of 1",
    ]


def test_batches_are_the_same_every_time(spark: SparkSession) -> None:
    for number in (0, 3):
        once, again = (Web(spark, 200, 0.1).create_batch(number) for _ in range(2))
        assert all(_rows(once[name]) == _rows(again[name]) for name in ("pages", "clicks"))


def test_a_delta_is_half_new_pages_and_half_old_ones_with_another_text(spark: SparkSession) -> None:
    web = Web(spark, 1000, 0.02)
    first = dict(web.create_batch(0)["pages"].select("url", "digest").collect())
    for number in (1, 2):
        delta = dict(web.create_batch(number)["pages"].select("url", "digest").collect())
        assert len(delta) == 20
        recrawled = first.keys() & delta.keys()
        assert len(recrawled) == 10
        assert all(first[url] != delta[url] for url in recrawled)
    assert not _urls(web, 1) & _urls(web, 2)
    assert web.create_batch(1)["clicks"].count() == 100


def test_few_sites_have_most_of_the_clicks_and_most_pairs_are_distinct(spark: SparkSession) -> None:
    clicks = Web(spark, 10_000, 0.01).create_batch(0)["clicks"]
    per_site = sorted((r["count"] for r in clicks.groupBy("site").count().collect()), reverse=True)
    assert sum(per_site) == 50_000
    assert len(per_site) > 150
    assert sum(per_site[:20]) > 0.5 * sum(per_site)
    pairs = clicks.agg(F.count_distinct("user", "site")).collect()[0][0]
    assert pairs > 0.4 * 50_000


def _urls(web: Web, number: int) -> set[str]:
    return {r["url"] for r in web.create_batch(number)["pages"].collect()}


def _rows(frame: DataFrame) -> list[tuple[object, ...]]:
    return sorted(map(tuple, frame.collect()))
