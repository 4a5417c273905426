"""`sim`: what would happen, in virtual time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from tidemill.cli.deferred import open_catalog_at
from tidemill.cli.options import AsJson, opened
from tidemill.cli.output import show, table
from tidemill.cli.staleness import report_changes, staleness
from tidemill.ports import CatalogReader
from tidemill.runtime.recorded import recorded
from tidemill.sim.plots import charts
from tidemill.sim.scenario import WEEK
from tidemill.sim.staleness.replay import replayed
from tidemill.sim.table_claims import SEEDS_5, SEEDS_6, TABLE_5, TABLE_6, by_workflow
from tidemill.sim.tables import TEN_WEEKS, TWELVE_HOURS, Row, table_5, table_6


class Which(StrEnum):
    MODES = "5"
    PLANNERS = "6"


TABLES = {
    Which.MODES: (table_5, TABLE_5, TEN_WEEKS, SEEDS_5),
    Which.PLANNERS: (table_6, TABLE_6, TWELVE_HOURS, SEEDS_6),
}
"""How each table is measured, what is claimed of it, and for how long and with how many seeds that is declared."""


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
        typer.Option(min=1, help="Simulations of each, whose means are shown; three, or ten for table 6, if left out."),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(file_okay=False, help="Draw lag and cost over time into this directory, as SVG.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Three workflows of the paper on asynchronous incremental processing: lag and cost, and the paper's beside ours.

    Lag and cost are CPU hours. The paper's rates are not known: the orders can be compared, the figures cannot. What
    the paper claims is printed with the rule that decides and the set-up; the exit code is 1 if a verdict is another
    one than declared.
    """
    measure, declaration, usual, many = TABLES[which]
    duration = usual if weeks is None else int(weeks * WEEK)
    rows = measure(duration, seeds=range(1, (seeds or many) + 1), stopwatch=time.process_time)
    if plot is not None:
        _draw(plot, int((weeks or 10) * WEEK))
    judgement = declaration.judge(by_workflow(rows))
    as_declared = duration == usual and seeds in (None, many)
    headings = ("workflow", "mode", ">lag", ">cost", ">repairs", ">scheduler s", ">paper's lag", ">paper's cost")
    show(
        as_json,
        {"table": int(which), "rows": rows, "as_declared": as_declared, **judgement.to_json()},
        table(f"table {which}", headings, (_cells(row) for row in rows)),
        *judgement.to_text(),
    )
    report_changes(judgement, as_declared=as_declared)


def policies(
    ctx: typer.Context,
    tracks: Annotated[int, typer.Option(min=1, help="So many runs at the same time.")] = 2,
    hours: Annotated[float, typer.Option(min=0.01, help="So far back.")] = 24.0,
    catalog: Annotated[str | None, typer.Option(help="The catalog's URL; the project's own if left out.")] = None,
    as_json: AsJson = False,
) -> None:
    """Replay what a real system went through under other policies: how stale tables would have been on average."""
    with _catalog(ctx, catalog) as found:
        ways = replayed(recorded(found, found.now() - 3600 * hours), tracks)
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
