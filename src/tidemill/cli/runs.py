"""`run`, `kill`, `runs` and `events`: runs of bound flows, and the log of events."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer
from rich.console import RenderableType

from tidemill.app import inspection
from tidemill.cli import tables
from tidemill.cli.command import Limit, Tidemill, open_project
from tidemill.cli.output import Answer, ProgressBar, build_console, build_fields, build_table, render_list
from tidemill.display import columns
from tidemill.display.formatting import format_age, format_count
from tidemill.display.table import show_state
from tidemill.errors import ConfigError, TidemillError
from tidemill.model.run import Run, RunKind, RunState
from tidemill.model.timestamps import format_iso
from tidemill.planner.refresh_mode import RefreshChoice
from tidemill.runtime.runs.requests import request_flow_run
from tidemill.wire.command_schemas import FinishedRunDocument, RequestedRunDocument
from tidemill.wire.schemas import EventListDocument, RunListDocument


def run(
    mill: Tidemill,
    flow: Annotated[str, typer.Argument(help="The bound flow; `tidemill flows` lists them.")],
    variant: Annotated[
        str | None,
        typer.Option(
            help="Refresh its declared tables by this variant: batch, incremental, …; "
            "with batch its programmed tasks compute everything from scratch, too.",
        ),
    ] = None,
    backfill: Annotated[
        bool,
        typer.Option("--backfill", help="Let a server recompute its declared tables, on a track for backfills."),
    ] = False,
) -> Answer:
    """Run a bound flow once, to its end; its declared tables in the cheapest mode, unless --variant names one."""
    if backfill:
        return _request_backfill(mill, flow, variant)
    choices: dict[str, RefreshChoice] = {}
    with _add_log_hint(mill, flow), ProgressBar(build_console(sys.stderr)) as bar:
        finished, blocks = mill.run(flow, bar, variant=variant, on_choice=choices.update)
    document = FinishedRunDocument.build(run=finished, blocks=blocks, choices=choices)
    duration = tables.format_run_duration(finished, mill.catalog.read_time())
    summary = f"run {finished.id} of {flow} {finished.state} in {duration}"
    outputs = ([b.channel, b.kind, b.id, b.seq, format_count(b.rows)] for b in blocks)
    reasons = ([name, c.mode, c.reason] for name, c in choices.items())
    return Answer(
        document,
        build_table("", ("output", "kind", ">block", ">seq", ">rows"), outputs),
        *([build_table("", ("table", "variant", "reason"), reasons)] if choices else []),
        summary,
    )


def _request_backfill(mill: Tidemill, flow: str, variant: str | None) -> Answer:
    if variant is not None:
        raise ConfigError("a backfill recomputes declared tables; expected --backfill or --variant, found both")
    requested = request_flow_run(mill.catalog, flow, backfill=True)
    serving = any(s.state == "serving" for s in mill.catalog.servers.list())
    hint = "" if serving else "; no server runs: start one with tidemill up"
    message = f"run {requested.id} of {flow} is a backfill that waits for a track{hint}"
    return Answer(RequestedRunDocument.build(run=requested), message)


@contextmanager
def _add_log_hint(mill: Tidemill, flow: str) -> Iterator[None]:
    """Add the command that shows the failed run's log to an error, if there was a run."""
    try:
        yield
    except TidemillError as error:
        newest = mill.catalog.runs.list(subject=flow, limit=10)
        own_runs = [r for r in newest if r.kind is RunKind.FLOW and r.owner == mill.executor.owner]
        if own_runs:
            error.add_note(f"see its log with: tidemill runs {own_runs[0].id} --log")
        raise


def kill(
    mill: Tidemill, run: Annotated[int, typer.Argument(help="The run's number; `tidemill runs` lists them.")]
) -> Answer:
    """Stop a run. None of its results become visible."""
    killed = mill.catalog.runs.kill(run)
    return Answer(RequestedRunDocument.build(run=killed), f"run {killed.id} of {killed.subject} {killed.state}")


def runs(
    ctx: typer.Context,
    run: Annotated[int | None, typer.Argument(help="Show this run with its log.")] = None,
    state: Annotated[RunState | None, typer.Option(help="Only runs in this state.")] = None,
    limit: Limit = 20,
    log: Annotated[bool, typer.Option("--log", help="Print only the run's log.")] = False,
) -> Answer:
    """List runs, the newest first; or show one of them."""
    if log and run is None:
        raise typer.BadParameter("--log needs the number of a run")
    with open_project(ctx) as mill:
        if run is not None:
            return _show_run(mill, mill.catalog.runs.read(run), only_log=log)
        run_list, now = mill.catalog.runs.list(state=state, limit=limit), mill.catalog.read_time()
    return Answer(RunListDocument.build(runs=run_list), render_list("", columns.RUN, run_list, now, empty="no runs"))


def _show_run(mill: Tidemill, run: Run, *, only_log: bool) -> Answer:
    document = inspection.read_run_details(mill.catalog, run.id)
    if only_log:
        return Answer(document, (document.log or "").rstrip("\n"))
    now = mill.catalog.read_time()
    return Answer(
        document,
        _render_run(run, now),
        render_list("tasks", columns.STATS, run.stats.get("tasks", {}).items()),
        *(render_list(f"steps of {task}", columns.STEP, steps) for task, steps in run.list_steps().items() if steps),
        render_list("reads", columns.READ, document.reads),
        render_list("blocks", tables.BLOCK, document.blocks, now),
        f"log\n{(document.log or '').rstrip()}",
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
        int | None, typer.Option(min=0, help="Continue after the event of this number; default: the newest.")
    ] = None,
    limit: Limit = 50,
) -> Answer:
    """List events, in order."""
    event_list = mill.list_events(after=after, limit=limit)
    return Answer(
        EventListDocument.build(events=event_list),
        render_list("", columns.EVENT, event_list, mill.catalog.read_time(), empty="no events"),
    )
