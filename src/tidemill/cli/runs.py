"""`runs` and `events`: executed runs, and the log of events."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import RenderableType

from tidemill.app import serialization
from tidemill.cli import tables
from tidemill.cli.formatting import format_age, format_count
from tidemill.cli.options import AsJson, Limit, open_project
from tidemill.cli.output import build_fields, build_table, show_answer
from tidemill.model.run import Run, RunState
from tidemill.model.timestamps import format_iso
from tidemill.ports.catalog import CatalogReader
from tidemill.ports.records import ChannelRead, Event

if TYPE_CHECKING:
    from tidemill.app.wiring import Tidemill

_PAGE = 1000


def register_commands(app: typer.Typer) -> None:
    app.command()(runs)
    app.command()(events)


def runs(
    ctx: typer.Context,
    run: Annotated[int | None, typer.Argument(help="Show this run with its log.")] = None,
    state: Annotated[RunState | None, typer.Option("--state", help="Only runs in this state.")] = None,
    limit: Limit = 20,
    log: Annotated[bool, typer.Option("--log", help="Print only the run's log.")] = False,
    as_json: AsJson = False,
) -> None:
    """List runs, the newest first; or show one of them."""
    if log and run is None:
        raise typer.BadParameter("--log needs the number of a run")
    with open_project(ctx) as mill:
        if run is not None:
            _show_run(mill, mill.catalog.read_run(run), only_log=log, as_json=as_json)
            return
        run_list, now = mill.catalog.list_runs(state=state, limit=limit), mill.catalog.read_time()
    show_answer(
        as_json,
        {"runs": [serialization.serialize_run(r) for r in run_list]},
        tables.render_runs("", run_list, now, empty="no runs"),
    )


def _show_run(mill: Tidemill, run: Run, *, only_log: bool, as_json: bool) -> None:
    text, readings, written = (
        mill.catalog.read_log(run.id),
        mill.catalog.list_run_reads(run.id),
        mill.catalog.list_written_blocks(run.id),
    )
    document = {
        "run": serialization.serialize_run(run),
        "reads": [serialization.serialize_reading(r) for r in readings],
        "blocks": [serialization.serialize_block(b) for b in written],
        "log": text,
    }
    if only_log:
        show_answer(as_json, document, text.rstrip("\n"))
        return
    now = mill.catalog.read_time()
    blocks = tables.render_blocks("blocks", written, now)
    show_answer(
        as_json,
        document,
        _render_run(run, now),
        _render_tasks(run),
        _render_reads(readings),
        blocks,
        f"log\n{text.rstrip()}",
    )


def _render_run(run: Run, now: float) -> RenderableType:
    return build_fields(
        [
            ("run", run.id),
            ("kind", run.kind),
            ("subject", run.subject),
            ("state", tables.style_state(run.state)),
            ("attempt", run.attempt),
            ("owner", run.owner),
            ("started", None if run.started is None else f"{format_iso(run.started)} ({format_age(run.started, now)})"),
            ("took", tables.format_run_duration(run)),
            ("error", (run.error or "").splitlines()),
        ]
    )


def _render_tasks(run: Run) -> RenderableType:
    stats = run.stats.get("tasks", {})
    rows = ([name, s["seconds"], format_count(s["rows_in"]), format_count(s["rows_out"])] for name, s in stats.items())
    return build_table("tasks", ("task", ">seconds", ">rows read", ">rows written"), rows)


def _render_reads(readings: list[ChannelRead]) -> RenderableType:
    rows = ([r.task, r.channel, "all" if r.since is None else f"after {r.since}", r.upto] for r in readings)
    return build_table("reads", ("task", "channel", "from", ">up to"), rows)


def events(
    ctx: typer.Context,
    after: Annotated[
        int | None, typer.Option("--after", min=0, help="Continue after the event of this number; default: the newest.")
    ] = None,
    limit: Limit = 50,
    as_json: AsJson = False,
) -> None:
    """List events, in order."""
    with open_project(ctx) as mill:
        event_list = (
            _read_newest_events(mill.catalog, limit)
            if after is None
            else mill.catalog.list_events(after=after, limit=limit)
        )
        now = mill.catalog.read_time()
    show_answer(
        as_json,
        {"events": [serialization.serialize_event(e) for e in event_list]},
        tables.render_events(event_list, now),
    )


def _read_newest_events(catalog: CatalogReader, limit: int) -> list[Event]:
    """Return the last events. The catalog lists them only from the beginning, so all are read."""
    newest: deque[Event] = deque(maxlen=limit)
    while page := catalog.list_events(after=newest[-1].id if newest else 0, limit=_PAGE):
        newest.extend(page)
    return list(newest)
