"""The parts of a declaration, checked: each problem is told with the place where the user wrote it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tidemill.algebra.sql.tables import NotASelect, table_names
from tidemill.api.marks import REFRESH, STATE, Duration, Key, Lag, Reading, Writing
from tidemill.api.triggers import interval
from tidemill.api.waves import carried_query
from tidemill.errors import WorkflowError
from tidemill.model.block import Kind
from tidemill.model.change import Append, Updates, Upsert
from tidemill.model.flow import Flow as FlowModel
from tidemill.model.freshness_target import EVERY, Form, Promise
from tidemill.model.location import Location
from tidemill.model.schema import Schema
from tidemill.model.task import Mode, Read, Retry, Write
from tidemill.model.trigger import Trigger
from tidemill.model.units import seconds


def schema(channel: str, ddl: str | None, where: Location) -> Schema | None:
    try:
        return None if ddl is None else Schema.parse(ddl)
    except ValueError as error:
        raise WorkflowError([f"{where}: channel {channel!r}: {error}"]) from error


def updates(channel: str, key: Key | None, updates: Updates | None, where: Location) -> Updates:
    if key is not None and updates is not None:
        raise WorkflowError([f"{where}: channel {channel!r}: give key= (upserts) or updates=, not both"])
    if updates is not None:
        return updates
    return Append() if key is None else Upsert((key,) if isinstance(key, str) else tuple(key))


def check_refresh(name: str, refresh: str, where: Location) -> None:
    if refresh not in REFRESH:
        raise WorkflowError([f"{where}: table {name!r}: refresh is one of {', '.join(REFRESH)}, not {refresh!r}"])


def when(every: Duration | None, triggers: Sequence[Trigger], where: Location) -> tuple[Trigger, ...]:
    return ((interval(every, where),) if every is not None else ()) + tuple(triggers)


def promise(lag: Lag | None, consistency: Duration | None, accepts: Sequence[str], where: Location) -> Promise:
    given = lag if isinstance(lag, Mapping) else {} if lag is None else {EVERY: lag}
    unknown = [form for form in accepts if form not in list(Form)]
    if unknown:
        raise WorkflowError([f"{where}: accepts names {', '.join(Form)}, not {unknown[0]!r}"])
    try:
        lags = {channel: seconds(duration) for channel, duration in given.items()}
        apart = None if consistency is None else 0.0 if consistency == "strict" else seconds(consistency)
    except ValueError as error:
        raise WorkflowError([f"{where}: {error}"]) from error
    if min((*lags.values(), apart or 0.0), default=0.0) < 0:
        raise WorkflowError([f"{where}: neither target_lag nor consistency can be less than nothing"])
    return Promise(lags, apart, tuple(Form(form) for form in accepts))


def limits(
    attempts: int, backoff: Duration, time_limit: Duration | None, where: Location
) -> tuple[Retry, float | None]:
    if attempts < 1:
        raise WorkflowError([f"{where}: attempts must be at least 1, not {attempts}"])
    try:
        return Retry(attempts, seconds(backoff)), None if time_limit is None else seconds(time_limit)
    except ValueError as error:
        raise WorkflowError([f"{where}: {error}"]) from error


def reads_of(fn: Callable[..., Any], channels: dict[str, str], given: set[str], where: Location) -> tuple[Read, ...]:
    reads = []
    for argument in signature(fn).parameters.values():
        asked = getattr(argument.annotation, "mode", None)
        if isinstance(asked, Mode):
            reads.append(Read(argument.name, channels.get(argument.name, argument.name), asked))
        elif argument.name not in given and argument.default is inspect.Parameter.empty:
            raise WorkflowError(
                [f"{where}: annotate argument {argument.name!r} of {fn.__name__!r}: tm.All, tm.New or tm.Old"]
            )
    stray = sorted(set(channels) - {a.name for a in signature(fn).parameters.values()} - {fn.__name__})
    if stray:
        raise WorkflowError([f"{where}: {fn.__name__!r} has no argument {stray[0]!r}, but channels names it"])
    return tuple(reads)


def writes_of(
    fn: Callable[..., Any],
    output: str | None,
    writes: Mapping[str, Writing] | None,
    channels: dict[str, str],
    where: Location,
) -> tuple[Write, ...]:
    if writes is not None:
        return tuple(Write(n, channels.get(n, n), kind(w, where)) for n, w in writes.items())
    made = getattr(signature(fn).return_annotation, "kind", None)
    if not isinstance(made, Kind):
        raise WorkflowError([f"{where}: annotate the result of {fn.__name__!r}: '-> tm.Delta' or '-> tm.Base'"])
    name = output or fn.__name__
    return (Write(name, name, made),)


def check_batch(fn: Callable[..., Any], reads: Sequence[Read], where: Location) -> None:
    first = next(iter(signature(fn).parameters), None)
    new = [r for r in reads if r.mode is Mode.NEW]
    if first != STATE or len(new) != 1 or any(r.mode is Mode.OLD for r in reads):
        raise WorkflowError(
            [
                f"{where}: keyed task {fn.__name__!r} is called as fn(state, batch, …): expected a first argument "
                f"'state', one that is tm.New, and others that are tm.All: def {fn.__name__}(state, events: tm.New)"
            ]
        )


def annotated(fn: Callable[..., Any]) -> dict[str, Any]:
    return {name: argument.annotation for name, argument in signature(fn).parameters.items()}


def mode(reading: Reading, where: Location) -> Mode:
    found = getattr(reading, "mode", None)
    if isinstance(found, Mode):
        return found
    raise WorkflowError([f"{where}: expected tm.All, tm.New or tm.Old, found {reading!r}"])


def kind(writing: Writing, where: Location) -> Kind:
    found = getattr(writing, "kind", None)
    if isinstance(found, Kind):
        return found
    raise WorkflowError([f"{where}: expected tm.Base or tm.Delta, found {writing!r}"])


def signature(fn: Callable[..., Any]) -> inspect.Signature:
    return inspect.signature(fn, eval_str=True)


def carried_text(name: str, query: str, waves: str, where: Location) -> str:
    try:
        return carried_query(query, waves)
    except ValueError as error:
        raise WorkflowError([f"{where}: query {name!r}: {error}"]) from error


def tables_of(name: str, query: str, where: Location) -> tuple[str, ...]:
    """The tables that a query reads; of one that cannot be read here some may turn out to be none."""
    try:
        return table_names(query).names
    except NotASelect as error:
        raise WorkflowError([f"{where}: query {name!r}: {error}"]) from error


def check_ports(flow: FlowModel, ports: Mapping[str, str], where: Location) -> None:
    stray = sorted(set(ports) - flow.ports)
    if stray:
        has = ", ".join(sorted(flow.ports)) or "none"
        raise WorkflowError([f"{where}: flow {flow.name!r} has no port {stray[0]!r}; its ports are {has}"])
