"""Merge costs of reads are summed until there is a newer base, and the cost of a rewrite is stored."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.catalog.driver import Driver, build_base, build_minor_block, build_outcome, moves_of

from tidemill.errors import Conflict, NotFound
from tidemill.model.block import BlockKind
from tidemill.ports.records import ChannelMergeCost


def test_merge_costs_of_runs_and_interactive_reads_are_recorded(driver: Driver) -> None:
    driver.insert("b")
    assert driver.catalog.channels.list_merge_costs() == []
    claim = driver.open_flow()
    driver.catalog.runs.commit(claim, replace(build_outcome(claim, moves_of(claim)), merge_seconds={"b": 0.5}))
    driver.catalog.channels.record_merge_costs({"b": 0.25, "a": 1.0})
    assert driver.catalog.channels.list_merge_costs() == [
        ChannelMergeCost("a", 1, 1.0, interactive_reads=1),
        ChannelMergeCost("b", 2, 0.75, interactive_reads=1),
    ]
    assert driver.catalog.channels.list_merge_costs(min_seconds=0.8) == [
        ChannelMergeCost("a", 1, 1.0, interactive_reads=1)
    ]


def test_a_run_that_does_not_commit_records_no_merge_cost(driver: Driver) -> None:
    claim = driver.open_flow()
    with pytest.raises(Conflict):
        driver.catalog.runs.commit(
            claim, replace(build_outcome(claim, moves_of(claim)), blocks=(), merge_seconds={"b": 0.5})
        )
    assert driver.catalog.channels.list_merge_costs() == []


def test_merge_costs_of_an_unknown_channel_are_rejected(driver: Driver) -> None:
    with pytest.raises(NotFound):
        driver.catalog.channels.record_merge_costs({"nothing": 1.0})


def test_a_newer_base_resets_merge_costs_and_a_minor_compaction_does_not(driver: Driver) -> None:
    for _ in range(3):
        driver.insert()
    driver.catalog.channels.record_merge_costs({"a": 1.0})
    driver.catalog.runs.commit_compaction(claim := driver.open_compaction(), build_minor_block(claim, "a", 0, 2))
    assert driver.catalog.channels.list_merge_costs() == [ChannelMergeCost("a", 1, 1.0, interactive_reads=1)]
    rewrite_model = {"runs": 1}
    driver.catalog.runs.commit_compaction(
        claim := driver.open_compaction(), build_base(claim, "a", 3), rewrite_cost=rewrite_model
    )
    assert driver.catalog.channels.list_merge_costs() == [ChannelMergeCost("a", 0, 0.0, rewrite_model, 1)]
    driver.catalog.channels.record_merge_costs({"a": 1.0})
    driver.insert(kind=BlockKind.BASE)
    assert driver.catalog.channels.list_merge_costs() == [ChannelMergeCost("a", 0, 0.0, rewrite_model, 2)]
