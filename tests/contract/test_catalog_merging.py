"""What readers pay for merging is counted until there is a newer base, and what a base costs is remembered."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.catalog.driver import Driver, base, fold, moves_of, outcome

from tidemill.errors import Conflict, NotFound
from tidemill.model.block import Kind
from tidemill.ports.records import Merging


def test_runs_and_others_pay(driver: Driver) -> None:
    driver.insert("b")
    assert driver.catalog.merging() == []
    claim = driver.open_flow()
    driver.catalog.commit(claim, replace(outcome(claim, moves_of(claim)), merged={"b": 0.5}))
    driver.catalog.merged({"b": 0.25, "a": 1.0})
    assert driver.catalog.merging() == [Merging("a", 1, 1.0, asked=1), Merging("b", 2, 0.75, asked=1)]
    assert driver.catalog.merging(paid=0.8) == [Merging("a", 1, 1.0, asked=1)]


def test_a_run_that_commits_nothing_has_paid_nothing(driver: Driver) -> None:
    claim = driver.open_flow()
    with pytest.raises(Conflict):
        driver.catalog.commit(claim, replace(outcome(claim, moves_of(claim)), filled=(), merged={"b": 0.5}))
    assert driver.catalog.merging() == []


def test_nobody_reads_what_is_unknown(driver: Driver) -> None:
    with pytest.raises(NotFound):
        driver.catalog.merged({"nothing": 1.0})


def test_a_newer_base_begins_anew_and_a_fold_does_not(driver: Driver) -> None:
    for _ in range(3):
        driver.insert()
    driver.catalog.merged({"a": 1.0})
    driver.catalog.compacted(claim := driver.open_compaction(), fold(claim, "a", 0, 2))
    assert driver.catalog.merging() == [Merging("a", 1, 1.0, asked=1)]
    known = {"runs": 1}
    driver.catalog.compacted(claim := driver.open_compaction(), base(claim, "a", 3), rewriting=known)
    assert driver.catalog.merging() == [Merging("a", 0, 0.0, known, 1)]
    driver.catalog.merged({"a": 1.0})
    driver.insert(kind=Kind.BASE)
    assert driver.catalog.merging() == [Merging("a", 0, 0.0, known, 2)]
