"""Reads a workload file that describes a user's tables, so that tracks can be sized before deployment."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from tidemill.errors import ConfigError
from tidemill.model.renamed import find_renamed_key
from tidemill.model.units import parse_duration
from tidemill.scheduler.hierarchy import PriorityInheritance, derive_periods
from tidemill.scheduler.job import JobProfile, UpdateCost
from tidemill.scheduler.policies import POLICIES
from tidemill.scheduler.tracks import PLACEMENTS
from tidemill.sim.staleness.workload import SimulationConfig, Workload

WORKLOAD_KEYS = ("tracks", "policy", "placement", "inheritance", "catch_up_limit", "batch_limit", "patience", "tables")
TABLE_KEYS = ("period", "cost", "priority", "parents")
COST_KEYS = ("start", "rate")


@dataclass(frozen=True, slots=True)
class WorkloadFile:
    workload: Workload
    config: SimulationConfig


def parse_workload(document: Mapping[str, Any]) -> WorkloadFile:
    """Parse the tables of a file and the dispatcher's settings; times are in seconds, or texts such as '5 minutes'."""
    if (problem := find_renamed_key(document, {"chop": "catch_up_limit"})) is not None:
        raise ConfigError(f"the workload: {problem}")
    _check_names("the workload", document, WORKLOAD_KEYS)
    tables = document.get("tables")
    if not isinstance(tables, Mapping) or not tables:
        raise ConfigError("the workload: expected tables, found none; add [tables.NAME] with a period and a cost")
    profiles = derive_periods([_parse_table(name, table) for name, table in tables.items()])
    tracks = _parse_number("the workload: tracks", document.get("tracks", 2), minimum=1)
    return WorkloadFile(Workload(tuple(profiles), int(tracks)), _parse_config(document))


def _parse_config(document: Mapping[str, Any]) -> SimulationConfig:
    batch_limit = _parse_limit("batch_limit", document, minimum=1)
    inheritance = _parse_choice("inheritance", document.get("inheritance", "max"), list(PriorityInheritance))
    return SimulationConfig(
        _parse_choice("policy", document.get("policy", "max-benefit"), POLICIES),
        _parse_choice("placement", document.get("placement", "proportional"), PLACEMENTS),
        PriorityInheritance(inheritance),
        _parse_limit("catch_up_limit", document, minimum=1),
        _parse_limit("patience", document, minimum=0),
        None if batch_limit is None else int(batch_limit),
    )


def _parse_limit(name: str, document: Mapping[str, Any], *, minimum: float) -> float | None:
    value = document.get(name)
    return None if value is None else _parse_number(f"the workload: {name}", value, minimum=minimum)


def _parse_table(name: str, document: object) -> JobProfile:
    subject = f"table {name}"
    if not isinstance(document, Mapping):
        hint = "write period = '1 minute', cost = '5 s'"
        raise ConfigError(f"{subject}: expected a period and a cost, found {document!r}; {hint}")
    _check_names(subject, document, TABLE_KEYS)
    parents = tuple(document.get("parents", ()))
    period = _parse_time(f"{subject}: period", document.get("period", None if not parents else 1.0))
    priority = _parse_number(f"{subject}: priority", document.get("priority", 1.0), minimum=0)
    return JobProfile(name, period, _parse_cost(subject, document.get("cost")), priority, parents)


def _parse_cost(subject: str, document: object) -> UpdateCost:
    """Parse a table of start and rate; or one time, regardless of the data loaded."""
    if not isinstance(document, Mapping):
        return UpdateCost(_parse_time(f"{subject}: cost", document), 0.0)
    _check_names(f"{subject}: cost", document, COST_KEYS)
    rate = _parse_number(f"{subject}: cost.rate", document.get("rate", 0.0), minimum=0)
    return UpdateCost(_parse_time(f"{subject}: cost.start", document.get("start")), rate)


def _parse_time(where: str, value: object) -> float:
    try:
        seconds = 0.0 if isinstance(value, bool) or not isinstance(value, str | int | float) else parse_duration(value)
    except ValueError:
        seconds = 0.0
    if seconds <= 0:
        raise ConfigError(f"{where}: expected a time above 0 in seconds, or such as '5 minutes', found {value!r}")
    return seconds


def _parse_number(where: str, value: object, *, minimum: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or value < minimum:
        raise ConfigError(f"{where}: expected a number of at least {minimum:g}, found {value!r}")
    return float(value)


def _parse_choice(where: str, value: object, choices: Collection[str]) -> str:
    if not isinstance(value, str) or value not in choices:
        raise ConfigError(f"the workload: {where}: expected one of {', '.join(choices)}, found {value!r}")
    return value


def _check_names(subject: str, document: Mapping[str, Any], allowed: tuple[str, ...]) -> None:
    unknown = [name for name in document if name not in allowed]
    if unknown:
        raise ConfigError(f"{subject}: expected {', '.join(allowed)}, found {', '.join(map(str, unknown))}; remove it")
