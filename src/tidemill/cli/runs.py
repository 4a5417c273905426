"""`runs` and `events`: executed runs, and the log of events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import RenderableType

from tidemill.app import inspection
from tidemill.cli import tables
from tidemill.cli.options import Limit, open_project
from tidemill.cli.output import Answer, build_fields, render_list
from tidemill.display import columns
from tidemill.display.formatting import format_age
from tidemill.display.table import show_state
from tidemill.model.run import Run, RunState
from tidemill.model.timestamps import format_iso
from tidemill.wire.schemas import EventListDocument, RunListDocument

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
    return Answer(RunListDocument.build(runs=run_list), render_list("", columns.RUN, run_list, now, empty="no runs"))


def _show_run(mill: Tidemill, run: Run, *, only_log: bool) -> Answer:
    document = inspection.read_run_details(mill.catalog, run.id)
    if only_log:
        return Answer(document, document.log.rstrip("\n"))
    now = mill.catalog.read_time()
    return Answer(
        document,
        _render_run(run, now),
        render_list("tasks", columns.STATS, run.stats.get("tasks", {}).items()),
        render_list("reads", columns.READ, document.reads),
        render_list("blocks", tables.BLOCK, mill.catalog.list_written_blocks(run.id), now),
        f"log\n{document.log.rstrip()}",
    )


def _render_run(run: Run, now: float) -> RenderableType:
    return build_fields(
        [
            ("run", run.id),
            ("kind", run.kind),
            ("subject", run.subject),
            ("state", show_state(run.state)),
            ("attempt", run.attempt),
            ("owner", run.owner),
            ("started", None if run.started is None else f"{format_iso(run.started)} ({format_age(run.started, now)})"),
            ("took", tables.format_run_duration(run, now)),
            ("error", (run.error or "").splitlines()),
        ]
    )


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
        EventListDocument.build(events=event_list),
        render_list("", columns.EVENT, event_list, mill.catalog.read_time(), empty="no events"),
    )
