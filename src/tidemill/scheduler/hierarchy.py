"""Tables made of tables: whose period a derived table has, and whose priority its sources inherit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from graphlib import CycleError, TopologicalSorter

from tidemill.errors import ConfigError
from tidemill.scheduler.job import Job, JobProfile


class PriorityInheritance(StrEnum):
    """What a table's priority counts for, besides its own."""

    NONE = "none"
    SUM = "sum"  # those of all its dependents, each once
    MAX = "max"  # the largest of its dependents'
    MAX_PLUS = "max-plus"  # the same, growing with every step towards the sources


PLUS = 2.0
"""By how much max-plus lets a priority grow with every step."""


def sort_profiles(profiles: Iterable[JobProfile]) -> list[JobProfile]:
    """Parents before their children."""
    known = {p.name: p for p in profiles}
    for profile in known.values():
        unknown = {parent for parent in profile.parents if parent not in known}
        if unknown:
            raise ConfigError(
                f"table {profile.name}: expected parents among the tables, found {', '.join(sorted(unknown))}; "
                "add them, or take them out of its parents"
            )
    try:
        return [known[name] for name in TopologicalSorter({p.name: p.parents for p in known.values()}).static_order()]
    except CycleError as error:
        raise ConfigError(
            f"expected no table among its own ancestors, found {' -> '.join(error.args[1])}; take out one of the steps"
        ) from error


def index_children(profiles: Iterable[JobProfile]) -> dict[str, list[str]]:
    """The tables that are directly made of each."""
    known = list(profiles)
    found: dict[str, list[str]] = {p.name: [] for p in known}
    for profile in known:
        for parent in profile.parents:
            found[parent].append(profile.name)
    return found


def derive_periods(profiles: Iterable[JobProfile]) -> list[JobProfile]:
    """A derived table's period is the largest among its ancestors."""
    periods: dict[str, float] = {}
    found = []
    for profile in sort_profiles(profiles):
        period = max((periods[p] for p in profile.parents), default=profile.period)
        periods[profile.name] = period
        found.append(replace(profile, period=period))
    return found


def inherit_priorities(
    profiles: Sequence[JobProfile], how: PriorityInheritance, plus: float = PLUS
) -> dict[str, float]:
    """What each table's priority counts for when the next job is chosen."""
    below = index_children(profiles)
    down = list(reversed(sort_profiles(profiles)))
    match how:
        case PriorityInheritance.NONE:
            return {p.name: p.priority for p in profiles}
        case PriorityInheritance.SUM:
            return _sum_priorities(down, below)
        case PriorityInheritance.MAX:
            return _find_largest(down, below, 1.0)
        case PriorityInheritance.MAX_PLUS:
            return _find_largest(down, below, plus)


def build_jobs(profiles: Sequence[JobProfile], how: PriorityInheritance = PriorityInheritance.MAX) -> list[Job]:
    """A job for each table, with nothing waiting."""
    weights = inherit_priorities(profiles, how)
    return [Job(profile, weights[profile.name]) for profile in profiles]


def _sum_priorities(down: Sequence[JobProfile], below: Mapping[str, Sequence[str]]) -> dict[str, float]:
    own = {p.name: p.priority for p in down}
    reach: dict[str, frozenset[str]] = {}
    for profile in down:
        reach[profile.name] = frozenset([profile.name]).union(*(reach[c] for c in below[profile.name]))
    return {name: sum(own[n] for n in sorted(names)) for name, names in reach.items()}


def _find_largest(down: Sequence[JobProfile], below: Mapping[str, Sequence[str]], factor: float) -> dict[str, float]:
    found: dict[str, float] = {}
    for profile in down:
        found[profile.name] = max([profile.priority, *(factor * found[c] for c in below[profile.name])])
    return found
