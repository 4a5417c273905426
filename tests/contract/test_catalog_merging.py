"""What readers pay for merging is counted until there is a newer base, and what a base costs is remembered."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.catalog.driver import Driver, base, fold, moves_of, outcome

from tidemill.errors import Conflict, NotFound
from tidemill.model.block import BlockKind
from tidemill.ports.records import ChannelMergeCost


def test_runs_and_others_pay(driver: Driver) -> None:
    driver.insert("b")
    assert driver.catalog.list_merge_costs() == []
    claim = driver.open_flow()
    driver.catalog.commit_run(claim, replace(outcome(claim, moves_of(claim)), merge_seconds={"b": 0.5}))
    driver.catalog.record_merge_costs({"b": 0.25, "a": 1.0})
    assert driver.catalog.list_merge_costs() == [
        ChannelMergeCost("a", 1, 1.0, interactive_reads=1),
        ChannelMergeCost("b", 2, 0.75, interactive_reads=1),
    ]
    assert driver.catalog.list_merge_costs(min_seconds=0.8) == [ChannelMergeCost("a", 1, 1.0, interactive_reads=1)]


def test_a_run_that_commits_nothing_has_paid_nothing(driver: Driver) -> None:
    claim = driver.open_flow()
    with pytest.raises(Conflict):
        driver.catalog.commit_run(claim, replace(outcome(claim, moves_of(claim)), blocks=(), merge_seconds={"b": 0.5}))
    assert driver.catalog.list_merge_costs() == []


def test_nobody_reads_what_is_unknown(driver: Driver) -> None:
    with pytest.raises(NotFound):
        driver.catalog.record_merge_costs({"nothing": 1.0})


def test_a_newer_base_begins_anew_and_a_fold_does_not(driver: Driver) -> None:
    for _ in range(3):
        driver.insert()
    driver.catalog.record_merge_costs({"a": 1.0})
    driver.catalog.commit_compaction(claim := driver.open_compaction(), fold(claim, "a", 0, 2))
    assert driver.catalog.list_merge_costs() == [ChannelMergeCost("a", 1, 1.0, interactive_reads=1)]
    known = {"runs": 1}
    driver.catalog.commit_compaction(claim := driver.open_compaction(), base(claim, "a", 3), rewrite_cost=known)
    assert driver.catalog.list_merge_costs() == [ChannelMergeCost("a", 0, 0.0, known, 1)]
    driver.catalog.record_merge_costs({"a": 1.0})
    driver.insert(kind=BlockKind.BASE)
    assert driver.catalog.list_merge_costs() == [ChannelMergeCost("a", 0, 0.0, known, 2)]
