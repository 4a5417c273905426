"""Checks and propagation of bounds."""

from __future__ import annotations

import pytest
from benchmarks.workflows import CRAWL, SEARCH
from benchmarks.workflows.scenario import DAY, HOUR, WEEK

from tidemill.planner.bounds import ChannelLimit, propagate_limits
from tidemill.planner.graph_index import GraphIndex
from tidemill.planner.vector import NEVER


def test_bounds_of_the_search_workflow_upstream() -> None:
    limits = propagate_limits(GraphIndex(SEARCH.graph), "index")
    assert limits["index"] == ChannelLimit((0, None), WEEK)
    assert limits["digests"] == limits["pages"] == ChannelLimit((0,), WEEK)
    assert limits["scores"] == limits["users"] == limits["pairs"] == limits["clicks"] == ChannelLimit((DAY,), WEEK)


def test_bounds_of_the_crawl_workflow_upstream() -> None:
    limits = propagate_limits(GraphIndex(CRAWL.graph), "queue")
    assert limits["top"] == ChannelLimit((HOUR, WEEK), WEEK)
    assert limits["successful"] == ChannelLimit((0,), WEEK)  # its bound is tighter than those of its readers
    assert limits["indegrees"] == limits["links"] == ChannelLimit((WEEK,), WEEK)
    assert limits["fetched"] == ChannelLimit((0,), WEEK)
    assert limits["queue"].staleness == (HOUR, None, DAY, None, 4 * HOUR, None)


@pytest.mark.parametrize(("end", "fresh"), [(90, True), (89, False), (NEVER, True), (100, True)])
def test_a_staleness_equal_to_its_bound_is_fresh(end: int, fresh: bool) -> None:
    assert ChannelLimit((10,), None).is_fresh((end,), now=100) == fresh


@pytest.mark.parametrize(("start", "consistent"), [(54, True), (55, False), (10, True)])
def test_an_inconsistency_must_be_below_its_bound(start: int, consistent: bool) -> None:
    assert ChannelLimit((None, None), 5).is_consistent(((start,), (20,)), (100, 50)) == consistent


def test_the_newest_version_does_not_become_stale() -> None:
    assert ChannelLimit((10, 0), None).find_violation_time((100, 100), now=100) is None
    assert ChannelLimit((10, 30), None).find_violation_time((80, 70), now=100) == 91
    assert ChannelLimit((None, None), None).find_violation_time((80, 70), now=100) is None
