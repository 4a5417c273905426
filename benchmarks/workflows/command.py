"""`workflows`: tables 5 and 6 of the paper on asynchronous incremental processing."""

from __future__ import annotations

import time
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.claims import report_changes
from benchmarks.workflows.plots import draw_charts
from benchmarks.workflows.scenario import WEEK
from benchmarks.workflows.table_claims import SEEDS_5, SEEDS_6, TABLE_5, TABLE_6, group_by_workflow
from benchmarks.workflows.tables import TEN_WEEKS, TWELVE_HOURS, Row, measure_table_5, measure_table_6
from tidemill.cli.command import AsJson
from tidemill.cli.output import build_table, show_answer


class TableNumber(StrEnum):
    MODES = "5"
    PLANNERS = "6"


TABLES = {
    TableNumber.MODES: (measure_table_5, TABLE_5, TEN_WEEKS, SEEDS_5),
    TableNumber.PLANNERS: (measure_table_6, TABLE_6, TWELVE_HOURS, SEEDS_6),
}
"""For each table the measurement, the declared claims, duration and number of seeds."""


def workflows(
    which: Annotated[
        TableNumber,
        typer.Option(
            "--table", help="5: incremental or batch, synchronous or asynchronous; 6: the planner and simpler ones."
        ),
    ] = TableNumber.MODES,
    weeks: Annotated[
        float | None,
        typer.Option(min=0.01, help="Simulated time; default: ten weeks, for table 6 twelve hours."),
    ] = None,
    seeds: Annotated[
        int | None,
        typer.Option(min=1, help="Simulations, whose means are shown; default: three, for table 6 ten."),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(file_okay=False, help="Draw lag and cost over time into this directory, as SVG.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Three workflows of the paper on asynchronous incremental processing: lag and cost, measured and in the paper.

    Lag and cost are CPU hours. The paper's rates are not known: the orders can be compared, the figures cannot. The
    paper's claims are printed with the deciding rules and the set-up; the exit code is 1 if a verdict differs from the
    declared one.
    """
    measure, declaration, declared_duration, declared_seeds = TABLES[which]
    duration = declared_duration if weeks is None else int(weeks * WEEK)
    rows = measure(duration, seeds=range(1, (seeds or declared_seeds) + 1), stopwatch=time.process_time)
    if plot is not None:
        _write_charts(plot, int((weeks or 10) * WEEK))
    judgement = declaration.judge(group_by_workflow(rows))
    as_declared = duration == declared_duration and seeds in (None, declared_seeds)
    headings = ("workflow", "mode", ">lag", ">cost", ">repairs", ">scheduler s", ">paper's lag", ">paper's cost")
    show_answer(
        as_json,
        {"table": int(which), "rows": rows, "as_declared": as_declared, **judgement.to_json()},
        build_table(f"table {which}", headings, (_format_row(row) for row in rows)),
        *judgement.to_text(),
    )
    report_changes(judgement.changes, as_declared=as_declared)


def _write_charts(directory: Path, duration: int) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for name, document in draw_charts(duration):
        (directory / f"{name}.svg").write_text(document, encoding="utf-8")


def _format_row(row: Row) -> list[object]:
    figures = (row["lag"], row["cost"], row["repairs"], row["scheduler_s"], row["paper_lag"], row["paper_cost"])
    return [row["workflow"], row["mode"], *(f"{figure:.4g}" for figure in figures)]
