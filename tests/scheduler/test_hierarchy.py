"""Periods and priorities along pathways."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.scheduler.jobs import profile

from tidemill.errors import ConfigError
from tidemill.scheduler.hierarchy import (
    PriorityInheritance,
    build_jobs,
    derive_periods,
    inherit_priorities,
    sort_profiles,
)
from tidemill.scheduler.job import JobProfile


@pytest.fixture
def chain() -> list[JobProfile]:
    """One of the paper's chains, with priorities 0.001, 1 and 100."""
    return [profile("base", 10, 1, 0.001), profile("mid", 10, 1, 1, "base"), profile("top", 10, 1, 100, "mid")]


@pytest.fixture
def diamond() -> list[JobProfile]:
    return [
        profile("a", 10, 1, 1),
        profile("b", 10, 1, 2, "a"),
        profile("c", 10, 1, 3, "a"),
        profile("d", 10, 1, 4, "b", "c"),
    ]


@pytest.mark.parametrize(
    ("inheritance", "base", "mid", "top"),
    [
        (PriorityInheritance.NONE, 0.001, 1, 100),
        (PriorityInheritance.SUM, 101.001, 101, 100),
        (PriorityInheritance.MAX, 100, 100, 100),
        (PriorityInheritance.MAX_PLUS, 400, 200, 100),
    ],
)
def test_priorities_are_inherited_along_a_chain(
    chain: list[JobProfile], inheritance: PriorityInheritance, base: float, mid: float, top: float
) -> None:
    assert inherit_priorities(chain, inheritance, factor=2.0) == pytest.approx({"base": base, "mid": mid, "top": top})


def test_a_diamond_counts_each_dependent_once(diamond: list[JobProfile]) -> None:
    assert inherit_priorities(diamond, PriorityInheritance.SUM) == {"a": 10, "b": 6, "c": 7, "d": 4}
    assert inherit_priorities(diamond, PriorityInheritance.MAX) == {"a": 4, "b": 4, "c": 4, "d": 4}
    assert inherit_priorities(diamond, PriorityInheritance.MAX_PLUS, factor=1.5) == {"a": 9, "b": 6, "c": 6, "d": 4}


def test_a_table_keeps_a_priority_above_that_of_its_dependents() -> None:
    tables = [profile("a", 10, 1, 50), profile("b", 10, 1, 3, "a")]
    assert inherit_priorities(tables, PriorityInheritance.MAX_PLUS, factor=2.0)["a"] == 50


def test_jobs_have_an_inherited_weight_and_their_own_priority(chain: list[JobProfile]) -> None:
    base = build_jobs(chain, PriorityInheritance.MAX)[0]
    assert (base.weight, base.profile.priority) == (100, 0.001)


def test_a_derived_table_has_the_largest_period_among_its_ancestors(diamond: list[JobProfile]) -> None:
    slow = replace(diamond[0], period=60.0)
    tables = [profile("x", 90), *diamond[1:], slow, profile("e", 1, 1, 1, "d", "x")]
    periods = {p.name: p.period for p in derive_periods(tables)}
    assert periods == {"x": 90, "a": 60, "b": 60, "c": 60, "d": 60, "e": 90}


def test_unknown_parents_and_cycles_are_rejected() -> None:
    with pytest.raises(ConfigError, match="table b: expected parents among the tables, found z"):
        sort_profiles([profile("b", 10, 1, 1, "z")])
    with pytest.raises(ConfigError, match="expected no table among its own ancestors, found"):
        sort_profiles([profile("a", 10, 1, 1, "b"), profile("b", 10, 1, 1, "a")])
