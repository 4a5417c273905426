"""`runs` and `events`: executed runs, and the log of events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import RenderableType

from tidemill.app import inspection
from tidemill.cli import tables
from tidemill.cli.formatting import format_age, format_count
from tidemill.cli.options import Limit, open_project
from tidemill.cli.output import Answer, build_fields, build_table
from tidemill.model.run import Run, RunState
from tidemill.model.timestamps import format_iso
from tidemill.wire.schemas import EventListDocument, ReadingDocument, RunListDocument

if TYPE_CHECKING:
    from tidemill.app.wiring import Tidemill


def runs(
    ctx: typer.Context,
    run: Annotated[int | None, typer.Argument(help="Show this run with its log.")] = None,
    state: Annotated[RunState | None, typer.Option("--state", help="Only runs in this state.")] = None,
    limit: Limit = 20,
    log: Annotated[bool, typer.Option("--log", help="Print only the run's log.")] = False,
) -> Answer:
    """List runs, the newest first; or show one of them."""
    if log and run is None:
        raise typer.BadParameter("--log needs the number of a run")
    with open_project(ctx) as mill:
        if run is not None:
            return _show_run(mill, mill.catalog.read_run(run), only_log=log)
        run_list, now = mill.catalog.list_runs(state=state, limit=limit), mill.catalog.read_time()
    return Answer(RunListDocument.build(runs=run_list), tables.render_runs("", run_list, now, empty="no runs"))


def _show_run(mill: Tidemill, run: Run, *, only_log: bool) -> Answer:
    document = inspection.read_run_details(mill.catalog, run.id)
    if only_log:
        return Answer(document, document.log.rstrip("\n"))
    now = mill.catalog.read_time()
    return Answer(
        document,
        _render_run(run, now),
        _render_tasks(run),
        _render_reads(document.reads),
        tables.render_blocks("blocks", mill.catalog.list_written_blocks(run.id), now),
        f"log\n{document.log.rstrip()}",
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


def _render_reads(readings: list[ReadingDocument]) -> RenderableType:
    rows = ([r.task, r.channel, "all" if r.since is None else f"after {r.since}", r.upto] for r in readings)
    return build_table("reads", ("task", "channel", "from", ">up to"), rows)


def events(
    mill: Tidemill,
    after: Annotated[
        int | None, typer.Option("--after", min=0, help="Continue after the event of this number; default: the newest.")
    ] = None,
    limit: Limit = 50,
) -> Answer:
    """List events, in order."""
    event_list = mill.list_events(after=after, limit=limit)
    return Answer(
        EventListDocument.build(events=event_list), tables.render_events(event_list, mill.catalog.read_time())
    )
