"""`runs` and `events`: what was executed, and what happened in which order."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import RenderableType

from tidemill.app import serialization
from tidemill.cli import tables
from tidemill.cli.formatting import ago, count
from tidemill.cli.options import AsJson, Limit, opened
from tidemill.cli.output import fields, show, table
from tidemill.model.run import Run, RunState
from tidemill.model.timestamps import iso
from tidemill.ports.catalog import CatalogReader
from tidemill.ports.records import Event, Reading

if TYPE_CHECKING:
    from tidemill.app.wiring import Tidemill

_PAGE = 1000


def register(app: typer.Typer) -> None:
    app.command()(runs)
    app.command()(events)


def runs(
    ctx: typer.Context,
    run: Annotated[int | None, typer.Argument(help="Show this run with its log.")] = None,
    state: Annotated[RunState | None, typer.Option("--state", help="Only runs in this state.")] = None,
    limit: Limit = 20,
    log: Annotated[bool, typer.Option("--log", help="Print nothing but the run's log.")] = False,
    as_json: AsJson = False,
) -> None:
    """List runs, the newest first; or show one of them."""
    if log and run is None:
        raise typer.BadParameter("--log needs the number of a run")
    with opened(ctx) as mill:
        if run is not None:
            _one(mill, mill.catalog.run(run), only_log=log, as_json=as_json)
            return
        found, now = mill.catalog.runs(state=state, limit=limit), mill.catalog.now()
    show(as_json, {"runs": [serialization.run(r) for r in found]}, tables.runs("", found, now, empty="no runs"))


def _one(mill: Tidemill, run: Run, *, only_log: bool, as_json: bool) -> None:
    text, readings, written = mill.catalog.log(run.id), mill.catalog.readings(run.id), mill.catalog.written(run.id)
    document = {
        "run": serialization.run(run),
        "reads": [serialization.reading(r) for r in readings],
        "blocks": [serialization.block(b) for b in written],
        "log": text,
    }
    if only_log:
        show(as_json, document, text.rstrip("\n"))
        return
    now = mill.catalog.now()
    blocks = tables.blocks("blocks", written, now)
    show(as_json, document, _details(run, now), _tasks(run), _reads(readings), blocks, f"log\n{text.rstrip()}")


def _details(run: Run, now: float) -> RenderableType:
    return fields(
        [
            ("run", run.id),
            ("kind", run.kind),
            ("of", run.subject),
            ("state", tables.state(run.state)),
            ("attempt", run.attempt),
            ("owner", run.owner),
            ("started", None if run.started is None else f"{iso(run.started)} ({ago(run.started, now)})"),
            ("took", tables.took(run)),
            ("error", (run.error or "").splitlines()),
        ]
    )


def _tasks(run: Run) -> RenderableType:
    stats = run.stats.get("tasks", {})
    rows = ([name, s["seconds"], count(s["rows_in"]), count(s["rows_out"])] for name, s in stats.items())
    return table("tasks", ("task", ">seconds", ">rows read", ">rows written"), rows)


def _reads(readings: list[Reading]) -> RenderableType:
    rows = ([r.task, r.channel, "all" if r.since is None else f"after {r.since}", r.upto] for r in readings)
    return table("reads", ("task", "channel", "from", ">up to"), rows)


def events(
    ctx: typer.Context,
    after: Annotated[
        int | None, typer.Option("--after", min=0, help="Go on after the event of this number; else the newest.")
    ] = None,
    limit: Limit = 50,
    as_json: AsJson = False,
) -> None:
    """List what happened, in its order."""
    with opened(ctx) as mill:
        found = _newest(mill.catalog, limit) if after is None else mill.catalog.events(after=after, limit=limit)
        now = mill.catalog.now()
    show(as_json, {"events": [serialization.event(e) for e in found]}, tables.events(found, now))


def _newest(catalog: CatalogReader, limit: int) -> list[Event]:
    """The last events. The catalog gives them only from the front, so all are passed by."""
    kept: deque[Event] = deque(maxlen=limit)
    while page := catalog.events(after=kept[-1].id if kept else 0, limit=_PAGE):
        kept.extend(page)
    return list(kept)
