"""`sim`: what would happen, in virtual time."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from tidemill.cli.deferred import open_catalog_at
from tidemill.cli.options import AsJson, opened
from tidemill.cli.output import show, table, write
from tidemill.cli.staleness import staleness
from tidemill.ports import CatalogReader
from tidemill.runtime.recorded import recorded
from tidemill.sim.plots import charts
from tidemill.sim.scenario import HOUR, WEEK
from tidemill.sim.staleness.replay import replayed
from tidemill.sim.tables import Row, doubts_5, doubts_6, table_5, table_6


class Which(StrEnum):
    MODES = "5"
    PLANNERS = "6"


def register(app: typer.Typer) -> None:
    sim = typer.Typer(help="Simulate, in virtual time, what would happen.", no_args_is_help=True)
    sim.command()(workflows)
    sim.command()(staleness)
    sim.command()(policies)
    app.add_typer(sim, name="sim")


def workflows(
    which: Annotated[
        Which,
        typer.Option("--table", help="5: incremental or batch, synchronous or not; 6: the planner and simpler ones."),
    ] = Which.MODES,
    weeks: Annotated[
        float | None,
        typer.Option(min=0.01, help="Simulated time; ten weeks, or twelve hours for table 6, if left out."),
    ] = None,
    seeds: Annotated[
        int | None,
        typer.Option(min=1, help="Simulations of each, whose means are shown; one, or five for table 6, if left out."),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(file_okay=False, help="Draw lag and cost over time into this directory, as SVG.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Three workflows of the paper on asynchronous incremental processing: lag and cost, and the paper's beside ours.

    Lag and cost are CPU hours. The paper's rates are not known: the orders can be compared, the figures cannot.
    """
    many = range(1, (seeds or (1 if which is Which.MODES else 5)) + 1)
    if which is Which.MODES:
        rows = table_5(int((weeks or 10) * WEEK), seeds=many, stopwatch=time.process_time)
        doubts = doubts_5(rows)
    else:
        rows = table_6(12 * HOUR if weeks is None else int(weeks * WEEK), seeds=many, stopwatch=time.process_time)
        doubts = doubts_6(rows)
    if plot is not None:
        _draw(plot, int((weeks or 10) * WEEK))
    if as_json:
        write(json.dumps(rows, indent=2) + "\n")
        return
    headings = ("workflow", "mode", ">lag", ">cost", ">repairs", ">scheduler s", ">paper's lag", ">paper's cost")
    said = "the paper's order holds" if not doubts else "not in the paper's order: " + "; ".join(doubts)
    show(False, {}, table(f"table {which}", headings, (_cells(row) for row in rows)), said)


def policies(
    ctx: typer.Context,
    tracks: Annotated[int, typer.Option(min=1, help="So many runs at the same time.")] = 2,
    hours: Annotated[float, typer.Option(min=0.01, help="So far back.")] = 24.0,
    catalog: Annotated[str | None, typer.Option(help="The catalog's URL; the project's own if left out.")] = None,
    as_json: AsJson = False,
) -> None:
    """Replay what a real system went through under other policies: how stale tables would have been on average."""
    with _catalog(ctx, catalog) as found:
        ways = replayed(recorded(found, time.time() - 3600 * hours), tracks)
    document = {"tracks": tracks, "ways": [{"way": r.name, "staleness": r.staleness, "tables": r.tables} for r in ways]}
    rows = ([r.name, f"{r.staleness:.4g}"] for r in ways)
    show(as_json, document, table("weighted staleness, in seconds", ("policy, placement", ">staleness"), rows))


@contextmanager
def _catalog(ctx: typer.Context, url: str | None) -> Iterator[CatalogReader]:
    if url is None:
        with opened(ctx) as mill:
            yield mill.catalog
        return
    with open_catalog_at(url) as catalog:
        yield catalog


def _draw(directory: Path, duration: int) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for name, document in charts(duration):
        (directory / f"{name}.svg").write_text(document, encoding="utf-8")


def _cells(row: Row) -> list[object]:
    figures = (row["lag"], row["cost"], row["repairs"], row["scheduler_s"], row["paper_lag"], row["paper_cost"])
    return [row["workflow"], row["mode"], *(f"{figure:.4g}" for figure in figures)]
