"""Runs at the same time have pools of their own; pools are used again."""

from __future__ import annotations

from xml.etree import ElementTree

from pyspark.sql import SparkSession

from tidemill.model.run import BACKFILL_TAG_PREFIX
from tidemill.spark.session import _SchedulerPools, _write_pool_weights, tag_jobs


def test_each_run_has_a_pool_and_its_threads_share_it() -> None:
    pools = _SchedulerPools("track")
    with pools.acquire_pool("one") as first, pools.acquire_pool("two") as second, pools.acquire_pool("one") as same:
        assert (first, second, same) == ("track-0", "track-1", "track-0")


def test_a_pool_that_is_free_is_used_again() -> None:
    pools = _SchedulerPools("track")
    with pools.acquire_pool("one"), pools.acquire_pool("two"):
        pass
    with pools.acquire_pool("three") as third:
        assert third == "track-0"


def test_backfills_have_pools_that_weigh_less(spark: SparkSession) -> None:
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
    assert "backfill-0" not in weights  # it has the weight of one
