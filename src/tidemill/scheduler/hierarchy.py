"""Derived tables: the periods that they inherit from sources, and the priorities that sources inherit from them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from graphlib import CycleError, TopologicalSorter

from tidemill.errors import ConfigError
from tidemill.scheduler.job import Job, JobProfile


class PriorityInheritance(StrEnum):
    """How a table inherits the priorities of its dependents."""

    NONE = "none"
    SUM = "sum"  # sum over all dependents, each once
    MAX = "max"  # maximum over the dependents
    MAX_PLUS = "max-plus"  # maximum, growing with every step towards the sources


Children = Mapping[str, Sequence[str]]

MAX_PLUS_FACTOR = 2.0
"""Growth factor of max-plus with every step."""


def sort_profiles(profiles: Iterable[JobProfile]) -> list[JobProfile]:
    """Sort profiles topologically: parents before their children."""
    by_name = {p.name: p for p in profiles}
    for profile in by_name.values():
        if missing := {*profile.parents} - by_name.keys():
            raise ConfigError(
                f"table {profile.name}: expected parents among the tables, found {', '.join(sorted(missing))}; "
                "add them, or remove them from its parents"
            )
    try:
        order = TopologicalSorter({name: p.parents for name, p in by_name.items()}).static_order()
        return [by_name[name] for name in order]
    except CycleError as error:
        cycle = " -> ".join(error.args[1])
        raise ConfigError(
            f"expected no table among its own ancestors, found {cycle}; remove one of the steps"
        ) from error


def index_children(profiles: Iterable[JobProfile]) -> dict[str, list[str]]:
    parents = {p.name: p.parents for p in profiles}
    children: dict[str, list[str]] = {name: [] for name in parents}
    for name in parents:
        for parent in parents[name]:
            children[parent].append(name)
    return children


def derive_periods(profiles: Iterable[JobProfile]) -> list[JobProfile]:
    """Set the period of each derived table to the largest among its ancestors."""
    periods: dict[str, float] = {}
    derived = []
    for profile in sort_profiles(profiles):
        period = max((periods[p] for p in profile.parents), default=profile.period)
        periods[profile.name] = period
        derived.append(replace(profile, period=period))
    return derived


def inherit_priorities(
    profiles: Sequence[JobProfile], inheritance: PriorityInheritance, factor: float = MAX_PLUS_FACTOR
) -> dict[str, float]:
    children = index_children(profiles)
    bottom_up = list(reversed(sort_profiles(profiles)))
    match inheritance:
        case PriorityInheritance.NONE:
            return {p.name: p.priority for p in profiles}
        case PriorityInheritance.SUM:
            return _sum_priorities(bottom_up, children)
        case PriorityInheritance.MAX:
            return _find_largest(bottom_up, children, 1.0)
        case PriorityInheritance.MAX_PLUS:
            return _find_largest(bottom_up, children, factor)


def build_jobs(profiles: Sequence[JobProfile], inheritance: PriorityInheritance = PriorityInheritance.MAX) -> list[Job]:
    """Build a job for each table, without pending batches."""
    weights = inherit_priorities(profiles, inheritance)
    return [Job(profile, weights[profile.name]) for profile in profiles]


def _sum_priorities(bottom_up: Sequence[JobProfile], children: Children) -> dict[str, float]:
    priorities = {p.name: p.priority for p in bottom_up}
    descendants: dict[str, frozenset[str]] = {}
    for profile in bottom_up:
        descendants[profile.name] = frozenset([profile.name]).union(*(descendants[c] for c in children[profile.name]))
    return {name: sum(priorities[n] for n in sorted(names)) for name, names in descendants.items()}


def _find_largest(bottom_up: Sequence[JobProfile], children: Children, factor: float) -> dict[str, float]:
    weights: dict[str, float] = {}
    for profile in bottom_up:
        weights[profile.name] = max([profile.priority, *(factor * weights[c] for c in children[profile.name])])
    return weights
