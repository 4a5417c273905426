"""A user's own tables, described in a file, so that tracks can be sized before anything is deployed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from tidemill.errors import ConfigError
from tidemill.model.units import parse_duration
from tidemill.scheduler.hierarchy import PriorityInheritance, derive_periods
from tidemill.scheduler.job import JobProfile, UpdateCost
from tidemill.scheduler.policies import POLICIES
from tidemill.scheduler.tracks import PLACEMENTS
from tidemill.sim.staleness.workload import SimulationConfig, Workload

T = TypeVar("T")

TOP = ("tracks", "policy", "placement", "inheritance", "chop", "patience", "tables")
OF_A_TABLE = ("period", "cost", "priority", "parents")
OF_A_COST = ("start", "rate")


@dataclass(frozen=True, slots=True)
class WorkloadFile:
    """What a file says."""

    workload: Workload
    way: SimulationConfig


def parse_workload(document: Mapping[str, Any]) -> WorkloadFile:
    """The tables of a file, and how they are dispatched; times are seconds, or words such as '5 minutes'."""
    _check_names("the workload", document, TOP)
    tables = document.get("tables")
    if not isinstance(tables, Mapping) or not tables:
        raise ConfigError("the workload: expected tables, found none; add [tables.NAME] with a period and a cost")
    profiles = derive_periods([_parse_table(name, of) for name, of in tables.items()])
    tracks = _parse_number("the workload: tracks", document.get("tracks", 2), least=1)
    return WorkloadFile(Workload(tuple(profiles), int(tracks)), _parse_config(document))


def _parse_config(document: Mapping[str, Any]) -> SimulationConfig:
    chop, patience = document.get("chop"), document.get("patience")
    return SimulationConfig(
        _parse_choice("policy", document.get("policy", "max-benefit"), {name: name for name in POLICIES}),
        _parse_choice("placement", document.get("placement", "proportional"), {name: name for name in PLACEMENTS}),
        _parse_choice(
            "inheritance", document.get("inheritance", "max"), {how.value: how for how in PriorityInheritance}
        ),
        None if chop is None else _parse_number("the workload: chop", chop, least=1),
        None if patience is None else _parse_number("the workload: patience", patience, least=0),
    )


def _parse_table(name: str, of: object) -> JobProfile:
    who = f"table {name}"
    if not isinstance(of, Mapping):
        raise ConfigError(f"{who}: expected a period and a cost, found {of!r}; write period = '1 minute', cost = '5 s'")
    _check_names(who, of, OF_A_TABLE)
    parents = tuple(of.get("parents", ()))
    period = _parse_time(f"{who}: period", of.get("period", None if not parents else 1.0))
    priority = _parse_number(f"{who}: priority", of.get("priority", 1.0), least=0)
    return JobProfile(name, period, _parse_cost(who, of.get("cost")), priority, parents)


def _parse_cost(who: str, of: object) -> UpdateCost:
    """A table of start and rate; or one time, however much is loaded."""
    if not isinstance(of, Mapping):
        return UpdateCost(_parse_time(f"{who}: cost", of), 0.0)
    _check_names(f"{who}: cost", of, OF_A_COST)
    rate = _parse_number(f"{who}: cost.rate", of.get("rate", 0.0), least=0)
    return UpdateCost(_parse_time(f"{who}: cost.start", of.get("start")), rate)


def _parse_time(where: str, value: object) -> float:
    try:
        found = 0.0 if isinstance(value, bool) or not isinstance(value, str | int | float) else parse_duration(value)
    except ValueError:
        found = 0.0
    if found <= 0:
        raise ConfigError(f"{where}: expected a time above 0 in seconds, or such as '5 minutes', found {value!r}")
    return found


def _parse_number(where: str, value: object, *, least: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or value < least:
        raise ConfigError(f"{where}: expected a number from {least:g} on, found {value!r}")
    return float(value)


def _parse_choice(where: str, value: object, known: Mapping[str, T]) -> T:
    if not isinstance(value, str) or value not in known:
        raise ConfigError(f"the workload: {where}: expected one of {', '.join(known)}, found {value!r}")
    return known[value]


def _check_names(who: str, found: Mapping[str, Any], known: tuple[str, ...]) -> None:
    strange = [name for name in found if name not in known]
    if strange:
        raise ConfigError(f"{who}: expected {', '.join(known)}, found {', '.join(map(str, strange))}; take it out")
