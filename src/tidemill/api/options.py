"""Options of declarations, as values that several declarations can share.

nightly = tm.Schedule(triggers=[tm.cron("0 3 * * *")], priority=2)
wf.sql("daily", "SELECT …", schedule=nightly, retry=tm.Retry(3, "10s"), freshness=tm.Freshness("1 day"))

Every field of a value is also a keyword of the declaration: `target_lag="1 day"` is short for
`freshness=tm.Freshness("1 day")`. If both are given, the keyword replaces the field.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, TypedDict, TypeVar

from tidemill.api.marks import Duration, Lag, locate_value_error
from tidemill.api.triggers import build_interval
from tidemill.errors import WorkflowError
from tidemill.model.freshness_target import ALL_PATHWAYS, DeliveryForm, FreshnessTarget
from tidemill.model.location import SourceLocation
from tidemill.model.resource_limits import ResourceLimits
from tidemill.model.task import RetryPolicy
from tidemill.model.trigger import Trigger
from tidemill.model.units import parse_duration, parse_size


@dataclass(frozen=True, slots=True)
class Schedule:
    """When servers run a task or a bound flow, beside its freshness targets."""

    every: Duration | None = None  # "7 days": short for the trigger tm.every("7 days")
    triggers: Sequence[Trigger] = ()
    priority: float = 1.0  # the weight of its staleness when more is due than can run at once

    def build_triggers(self, where: SourceLocation) -> tuple[Trigger, ...]:
        if not isinstance(self.triggers, Sequence):
            raise WorkflowError([f"{where}: expected triggers to be a list of triggers, found {self.triggers!r}"])
        return ((build_interval(self.every, where),) if self.every is not None else ()) + tuple(self.triggers)


@dataclass(frozen=True, slots=True)
class Retry:
    """How often a task is attempted, and how long an attempt may take."""

    attempts: int = 1
    backoff: Duration = 1.0  # the wait after a failure, doubled each time, up to five minutes
    time_limit: Duration | None = None  # of an attempt

    def build_limits(self, where: SourceLocation) -> tuple[RetryPolicy, float | None]:
        if self.attempts < 1:
            raise WorkflowError([f"{where}: expected attempts to be at least 1, found {self.attempts}"])
        with locate_value_error(where):
            policy = RetryPolicy(self.attempts, parse_duration(self.backoff))
            return policy, None if self.time_limit is None else parse_duration(self.time_limit)


@dataclass(frozen=True, slots=True)
class Limits:
    """The resources that a command may use, with its child processes."""

    memory: str | int | None = None  # "2 GB"
    cpu: Duration | None = None  # "10 minutes" of CPU time
    processes: int | None = None
    time_limit: Duration | None = None  # of an attempt, as in `Retry`; the shorter of both holds

    def build_limits(self, where: SourceLocation) -> tuple[ResourceLimits, float | None]:
        with locate_value_error(where):
            memory = None if self.memory is None else parse_size(self.memory)
            cpu = None if self.cpu is None else parse_duration(self.cpu)
            time_limit = None if self.time_limit is None else parse_duration(self.time_limit)
        given = {"memory": memory, "cpu": cpu, "processes": self.processes, "time_limit": time_limit}
        for name, limit in given.items():
            if limit is not None and limit <= 0:
                raise WorkflowError([f"{where}: expected the limit {name} to be positive, found {limit:g}"])
        return ResourceLimits(memory, cpu, self.processes), time_limit


@dataclass(frozen=True, slots=True)
class Freshness:
    """How fresh and how consistent a table must be.

    `target_lag="1 day"`: new data is reflected within a day; `{"pages": "0s", "clicks": "1 day"}`: by input, or by
    pathway: `{"news": "0s", "digests > adaptive": "4 hours"}`. `consistency="7 days"`: the versions of its inputs that
    it reflects are at most seven days apart; "strict": they were valid at the same time. `accepts` are the forms in
    which external readers accept changes: "base" (the full content), "delta", or "monotone" (a delta without
    retractions); any by default.
    """

    target_lag: Lag | None = None
    consistency: Duration | None = None
    accepts: Sequence[str] = ()

    def build_target(self, where: SourceLocation) -> FreshnessTarget:
        lag = {} if self.target_lag is None else self.target_lag
        unknown = [form for form in self.accepts if form not in list(DeliveryForm)]
        if unknown:
            forms = ", ".join(DeliveryForm)
            raise WorkflowError([f"{where}: expected accepts to contain {forms}, found {unknown[0]!r}"])
        with locate_value_error(where):
            by_pathway = lag if isinstance(lag, Mapping) else {ALL_PATHWAYS: lag}
            lags = {pathway: parse_duration(duration) for pathway, duration in by_pathway.items()}
            consistency = 0.0 if self.consistency == "strict" else self.consistency
            max_inconsistency = None if consistency is None else parse_duration(consistency)
        if min((*lags.values(), max_inconsistency or 0.0), default=0.0) < 0:
            raise WorkflowError([f"{where}: target_lag and consistency cannot be negative"])
        return FreshnessTarget(lags, max_inconsistency, tuple(DeliveryForm(form) for form in self.accepts))


@dataclass(frozen=True, slots=True)
class Dependencies:
    """What a task's result depends on, beside its code, parameters and inputs.

    `environment` are names of environment variables; `version` is a string that you change with anything else. With
    `deterministic=False` results are never reused. With True a task that reads and writes full contents is not run
    again for the same inputs. None: results are reused in one-shot workflows, as far as their code can be read.
    """

    version: str | None = None
    environment: Sequence[str] = ()
    deterministic: bool | None = None


class ScheduleOptions(TypedDict, total=False):
    """`Schedule`, or its fields."""

    schedule: Schedule
    every: Duration | None
    triggers: Sequence[Trigger]
    priority: float


class FreshnessOptions(TypedDict, total=False):
    """`Freshness`, or its fields."""

    freshness: Freshness
    target_lag: Lag | None
    consistency: Duration | None
    accepts: Sequence[str]


class RunOptions(ScheduleOptions, FreshnessOptions, total=False):
    """`Schedule`, `Freshness` and `Retry`, or their fields: the options of every task."""

    retry: Retry
    attempts: int
    backoff: Duration
    time_limit: Duration | None


class TableOptions(RunOptions, total=False):
    """The options of a table that a query or a relation defines."""

    refresh_group: str | None


class TaskOptions(RunOptions, total=False):
    """The options of a function or a command."""

    dependencies: Dependencies
    version: str | None
    environment: Sequence[str]
    deterministic: bool | None


class CommandOptions(TaskOptions, total=False):
    """The options of a command."""

    limits: Limits
    memory: str | int | None
    cpu: Duration | None
    processes: int | None


@dataclass(frozen=True, slots=True)
class DeclaredOptions:
    """The checked options of a declaration at `location`."""

    location: SourceLocation
    triggers: tuple[Trigger, ...]
    priority: float
    target: FreshnessTarget
    refresh_group: str | None
    limits: ResourceLimits
    task_fields: Mapping[str, Any]  # fields of its `Task`


def read_options(accepted: type[Any], given: Mapping[str, Any], where: SourceLocation) -> DeclaredOptions:
    """Read the options that a declaration was given; `accepted` is the TypedDict of those that it has."""
    unknown = sorted(given.keys() - accepted.__annotations__.keys())
    if unknown:
        known = ", ".join(sorted(accepted.__annotations__))
        raise TypeError(f"{where}: there is no option {unknown[0]!r}; the options here are {known}")
    schedule, freshness = _merge_option(Schedule, given, where), _merge_option(Freshness, given, where)
    retry, attempt_limit = _merge_option(Retry, given, where).build_limits(where)
    limits, command_limit = _merge_option(Limits, given, where).build_limits(where)
    dependencies = _merge_option(Dependencies, given, where)
    task_fields = {
        "retry": retry,
        "time_limit": min((t for t in (attempt_limit, command_limit) if t is not None), default=None),
        "version": dependencies.version,
        "environment": tuple(dependencies.environment),
        "deterministic": dependencies.deterministic,
        "location": where,
    }
    return DeclaredOptions(
        where,
        schedule.build_triggers(where),
        schedule.priority,
        freshness.build_target(where),
        given.get("refresh_group"),
        limits,
        task_fields,
    )


Value = TypeVar("Value", Schedule, Retry, Limits, Freshness, Dependencies)


def _merge_option(kind: type[Value], given: Mapping[str, Any], where: SourceLocation) -> Value:
    """The value of a kind that was given, or the default one, with the fields that were given as keywords."""
    name = kind.__name__.lower()
    value = given.get(name, kind())
    if not isinstance(value, kind):
        raise WorkflowError([f"{where}: expected {name} to be a tm.{kind.__name__}, found {value!r}"])
    return replace(value, **{field.name: given[field.name] for field in fields(kind) if field.name in given})
