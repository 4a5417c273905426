"""Concurrent runs have separate scheduler pools, and free pools are reused."""

from __future__ import annotations

from xml.etree import ElementTree

from pyspark.sql import SparkSession

from tidemill.model.run import BACKFILL_TAG_PREFIX
from tidemill.spark.session import _SchedulerPools, _write_pool_weights, tag_jobs


def test_the_threads_of_a_run_share_its_pool() -> None:
    pools = _SchedulerPools("track")
    with pools.acquire_pool("one") as first, pools.acquire_pool("two") as second, pools.acquire_pool("one") as same:
        assert (first, second, same) == ("track-0", "track-1", "track-0")


def test_a_free_pool_is_reused() -> None:
    pools = _SchedulerPools("track")
    with pools.acquire_pool("one"), pools.acquire_pool("two"):
        pass
    with pools.acquire_pool("three") as third:
        assert third == "track-0"


def test_pools_of_backfills_have_less_weight(spark: SparkSession) -> None:
    context = spark.sparkContext
    with tag_jobs(spark, f"{BACKFILL_TAG_PREFIX}-1-1"):
        assert context.getLocalProperty("spark.scheduler.pool") == "backfill-0"
    with tag_jobs(spark, "tidemill-run-2-1"):
        assert context.getLocalProperty("spark.scheduler.pool") == "track-0"
    with _write_pool_weights() as settings:
        (address,) = settings.values()
        pools = ElementTree.parse(address.removeprefix("file://")).findall("pool")
    weights = {pool.get("name"): pool.findtext("weight") for pool in pools}
    assert weights["track-0"] == "10"
    assert "backfill-0" not in weights  # its weight is the default, 1
