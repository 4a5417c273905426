"""Runs at the same time have pools of their own; pools are used again."""

from __future__ import annotations

from tidemill.spark.session import _Pools


def test_each_run_has_a_pool_and_its_threads_share_it() -> None:
    pools = _Pools()
    with pools.held("one") as first, pools.held("two") as second, pools.held("one") as same:
        assert (first, second, same) == ("track-0", "track-1", "track-0")


def test_a_pool_that_is_free_is_used_again() -> None:
    pools = _Pools()
    with pools.held("one"), pools.held("two"):
        pass
    with pools.held("three") as third:
        assert third == "track-0"
