"""Values of the model as rows of tables. Pure: time is an argument."""

from __future__ import annotations

from collections.abc import Mapping

from tidemill.model.block import Block
from tidemill.model.run import Run
from tidemill.model.schema import Schema
from tidemill.planner.explanation import Weighed, Written
from tidemill.ports.records import Event, Firing, Reading, RegisteredTrigger, Server
from tidemill.runtime.inspect.status import Consumer, Reflected, TaskStatus
from tidemill.ui.elements import channel_url, flow_url, run_url, subject_url
from tidemill.ui.formatting import NONE, ago, cell, clock, count, first_line, moment, size, span, took
from tidemill.ui.health import overdue
from tidemill.ui.table import Cell, Row

SILENT = 30.0
"""Seconds after which a server that serves and was not seen is probably dead."""


def named_run(run: int | None) -> Cell:
    return Cell(NONE) if run is None else Cell(str(run), run_url(run))


def of_run(value: Run, now: float) -> Row:
    """run, of, kind, state, when, took, error"""
    return (
        named_run(value.id),
        Cell(value.subject, subject_url(value)),
        str(value.kind),
        Cell(str(value.state), tone=str(value.state)),
        ago(value.finished or value.started or value.created, now),
        took(value.started, value.finished, now),
        first_line(value.error),
    )


RUN = (">run", "of", "kind", "state", "when", ">took", "error")


def of_block(value: Block, visible: float | None, now: float) -> Row:
    """A block; derived ones have no version, so when it became visible is told."""
    return (
        str(value.seq),
        str(value.kind),
        Cell(str(value.state) + (", pinned" if value.pinned else ""), tone=str(value.state)),
        count(value.rows),
        size(value.bytes),
        ago(visible, now),
        f"{value.origin}" + (f", {value.task}" if value.task else ""),
        named_run(value.run),
    )


BLOCK = (">seq", "kind", "state", ">rows", ">size", "visible", "made by", ">run")


def of_written(value: Block) -> Row:
    """A block as a run's page shows it."""
    where = Cell(value.channel, channel_url(value.channel))
    state = Cell(str(value.state), tone=str(value.state))
    return (where, str(value.seq), str(value.kind), state, count(value.rows), size(value.bytes))


WRITTEN = ("channel", ">seq", "kind", "state", ">rows", ">size")


def of_schema(value: Schema | None) -> list[Row]:
    return [(f.name, f.type, "yes" if f.nullable else "no") for f in value or ()]


SCHEMA = ("column", "type", "nullable")


def of_reflected(value: Reflected, now: float) -> Row:
    oldest, newest = moment(value.versions[0]), moment(value.latest)
    return (" › ".join(value.pathway), str(len(value.versions)), clock(newest), ago(newest, now), ago(oldest, now))


REFLECTED = ("pathway", ">versions", "newest version", "newest", "oldest")


def of_consumer(value: Consumer) -> Row:
    behind = Cell(f"{count(value.behind)} unread", tone="waiting") if value.behind else Cell("all read", tone="fresh")
    return (Cell(value.flow, flow_url(value.flow)), value.task, ", ".join(value.modes), behind)


CONSUMER = ("flow", "task", "reads", "stands")


def of_task(value: TaskStatus, place: str) -> Row:
    reads = ", ".join(f"{c} ({m})" for c, m in value.reads)
    writes = ", ".join(f"{c} ({k})" for c, k in value.writes)
    return (value.name, value.code, reads, writes, place)


TASK = ("task", "code", "reads", "writes", "declared in")


def of_trigger(value: RegisteredTrigger, now: float) -> Row:
    waits = f"{count(value.rows)} rows, {size(value.bytes)}" if value.since is not None else NONE
    return (Cell(value.flow, flow_url(value.flow)), str(value.leaf), _due(value, now), waits, count(value.missed))


TRIGGER = ("flow", "condition", "due", "waits", ">missed")


def _due(value: RegisteredTrigger, now: float) -> Cell:
    if value.paused:
        return Cell("paused", tone="paused")
    if overdue(value, now) and value.due is not None:
        return Cell(f"{span(now - value.due)} late", tone="late")
    if value.due is not None:
        return Cell(ago(value.due, now) if value.due > now else "now")
    return Cell("fired, waits for other parts" if value.fired is not None else "when it happens")


def of_firing(value: Firing, now: float) -> Row:
    flow = Cell(value.flow, flow_url(value.flow))
    return (flow, str(value.trigger), ago(value.at, now), count(value.missed), named_run(value.run))


FIRING = ("flow", "trigger", "when", ">missed", ">run")


def of_server(value: Server, busy: int, now: float) -> Row:
    silent = value.state != "stopped" and value.seen + SILENT < now
    state = Cell("silent", tone="failed") if silent else Cell(value.state, tone=value.state)
    leads = "leads" if value.leader else ""
    return (
        value.name,
        value.role,
        state,
        leads,
        f"{busy} of {value.tracks}",
        ago(value.started, now),
        ago(value.seen, now),
    )


SERVER = ("server", "role", "state", "", "tracks busy", "started", "seen")


def of_event(value: Event, now: float) -> Row:
    detail = ", ".join(f"{name} {_plain(item)}" for name, item in value.detail.items())
    return (str(value.id), ago(value.at, now), value.kind, value.subject, named_run(value.run), cell(detail))


EVENT = (">event", "when", "kind", "of", ">run", "detail")


def _plain(value: object) -> object:
    return f"{value:.3f}" if isinstance(value, float) else value


def of_reading(value: Reading) -> Row:
    since = "all of it" if value.since is None else f"after {value.since}"
    return (value.task, Cell(value.channel, channel_url(value.channel)), since, str(value.upto))


READING = ("task", "channel", "read", ">up to")


def of_stats(stats: Mapping[str, Mapping[str, object]]) -> list[Row]:
    return [(name, *(cell(s.get(key)) for key in ("seconds", "rows_in", "rows_out"))) for name, s in stats.items()]


STATS = ("task", ">seconds", ">rows read", ">rows written")


def of_variant(value: Weighed, writer: Written) -> Row:
    reads = ", ".join(f"{channel} ({', '.join(modes)})" for channel, modes in value.reads)
    seconds = NONE if value.seconds is None else f"{value.seconds:.1f}"
    return (value.name, reads or NONE, count(value.rows), seconds, _verdict(value, writer))


VARIANT = ("variant", "reads", ">rows", ">seconds", "now")


def _verdict(value: Weighed, writer: Written) -> Cell:
    if value.obstacle:
        return Cell(f"impossible: {value.obstacle}")
    if value.name == writer.way:
        return Cell("would run", tone="fresh")
    return Cell("possible" if writer.way is not None else "known after apply")
