"""A user's own tables, described in a file, so that tracks can be sized before anything is deployed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from tidemill.errors import ConfigError
from tidemill.model.units import seconds
from tidemill.scheduler.hierarchy import Inheritance, with_periods
from tidemill.scheduler.job import Cost, Profile
from tidemill.scheduler.policies import POLICIES
from tidemill.scheduler.tracks import PLACEMENTS
from tidemill.sim.staleness.workload import Way, Workload

T = TypeVar("T")

TOP = ("tracks", "policy", "placement", "inheritance", "chop", "patience", "tables")
OF_A_TABLE = ("period", "cost", "priority", "parents")
OF_A_COST = ("start", "rate")


@dataclass(frozen=True, slots=True)
class Described:
    """What a file says."""

    workload: Workload
    way: Way


def described(document: Mapping[str, Any]) -> Described:
    """The tables of a file, and how they are dispatched; times are seconds, or words such as '5 minutes'."""
    _only("the workload", document, TOP)
    tables = document.get("tables")
    if not isinstance(tables, Mapping) or not tables:
        raise ConfigError("the workload: expected tables, found none; add [tables.NAME] with a period and a cost")
    profiles = with_periods([_table(name, of) for name, of in tables.items()])
    tracks = _number("the workload: tracks", document.get("tracks", 2), least=1)
    return Described(Workload(tuple(profiles), int(tracks)), _way(document))


def _way(document: Mapping[str, Any]) -> Way:
    chop, patience = document.get("chop"), document.get("patience")
    return Way(
        _one_of("policy", document.get("policy", "max-benefit"), {name: name for name in POLICIES}),
        _one_of("placement", document.get("placement", "proportional"), {name: name for name in PLACEMENTS}),
        _one_of("inheritance", document.get("inheritance", "max"), {how.value: how for how in Inheritance}),
        None if chop is None else _number("the workload: chop", chop, least=1),
        None if patience is None else _number("the workload: patience", patience, least=0),
    )


def _table(name: str, of: object) -> Profile:
    who = f"table {name}"
    if not isinstance(of, Mapping):
        raise ConfigError(f"{who}: expected a period and a cost, found {of!r}; write period = '1 minute', cost = '5 s'")
    _only(who, of, OF_A_TABLE)
    parents = tuple(of.get("parents", ()))
    period = _time(f"{who}: period", of.get("period", None if not parents else 1.0))
    priority = _number(f"{who}: priority", of.get("priority", 1.0), least=0)
    return Profile(name, period, _cost(who, of.get("cost")), priority, parents)


def _cost(who: str, of: object) -> Cost:
    """A table of start and rate; or one time, however much is loaded."""
    if not isinstance(of, Mapping):
        return Cost(_time(f"{who}: cost", of), 0.0)
    _only(f"{who}: cost", of, OF_A_COST)
    rate = _number(f"{who}: cost.rate", of.get("rate", 0.0), least=0)
    return Cost(_time(f"{who}: cost.start", of.get("start")), rate)


def _time(where: str, value: object) -> float:
    try:
        found = 0.0 if isinstance(value, bool) or not isinstance(value, str | int | float) else seconds(value)
    except ValueError:
        found = 0.0
    if found <= 0:
        raise ConfigError(f"{where}: expected a time above 0 in seconds, or such as '5 minutes', found {value!r}")
    return found


def _number(where: str, value: object, *, least: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or value < least:
        raise ConfigError(f"{where}: expected a number from {least:g} on, found {value!r}")
    return float(value)


def _one_of(where: str, value: object, known: Mapping[str, T]) -> T:
    if not isinstance(value, str) or value not in known:
        raise ConfigError(f"the workload: {where}: expected one of {', '.join(known)}, found {value!r}")
    return known[value]


def _only(who: str, found: Mapping[str, Any], known: tuple[str, ...]) -> None:
    strange = [name for name in found if name not in known]
    if strange:
        raise ConfigError(f"{who}: expected {', '.join(known)}, found {', '.join(map(str, strange))}; take it out")
