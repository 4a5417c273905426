"""`figures`: the figures of the paper on update scheduling."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import RenderableType

from benchmarks.claims import report_changes
from benchmarks.figures import FIGURES
from benchmarks.figures.experiment import EVENTS, SEEDS, Curves, Experiment, Result, measure_experiment
from tidemill.cli.command import AsJson
from tidemill.cli.output import build_table, print_message, show_answer
from tidemill.sim.chart import render_line_chart


def figures(
    figure: Annotated[int, typer.Option(min=min(FIGURES), max=max(FIGURES), help="The figure to measure.")],
    events: Annotated[int, typer.Option(min=100, help="Events of each simulation; the paper uses 1 000 000.")] = EVENTS,
    seeds: Annotated[int, typer.Option(min=1, help="Simulations of each point; their mean is shown.")] = SEEDS,
    plot: Annotated[Path | None, typer.Option(dir_okay=False, help="Draw the curves into this SVG file.")] = None,
    as_json: AsJson = False,
) -> None:
    """A figure of the paper on update scheduling: staleness of tables on a limited number of tracks.

    Lateness is weighted staleness as a multiple of that with a track for every table. A figure is printed with the
    paper's claims, the deciding rules and the set-up. A claim that does not hold is no failure if that is declared and
    explained; the exit code is 1 if a verdict differs from the declared one.
    """
    _show_figure(measure_experiment(FIGURES[figure], events, range(1, seeds + 1)), plot, as_json)


def _show_figure(result: Result, plot: Path | None, as_json: bool) -> None:
    experiment = result.experiment
    title = f"Figure {experiment.figure}: {experiment.title}"
    lines = {
        f"{name}, {setup}" if len(result.samples) > 1 else name: curve
        for setup, sample in result.samples.items()
        for name, curve in sample.mean.items()
    }
    if plot is not None:
        _draw_chart(plot, title, experiment.axis, {name: list(curve.items()) for name, curve in lines.items()})
    tables = [_build_table(f"{title} ({setup})", experiment, sample.mean) for setup, sample in result.samples.items()]
    show_answer(as_json, result.to_json(), *tables, *result.judgement.to_text())
    report_changes(result.judgement.changes, as_declared=result.as_declared)


def _build_table(title: str, experiment: Experiment, curves: Curves) -> RenderableType:
    rows = [[f"{x:g}", *(_format_figure(curve.get(x)) for curve in curves.values())] for x in experiment.values]
    return build_table(title, [f">{experiment.axis}", *(f">{name}" for name in curves)], rows)


def _draw_chart(path: Path, title: str, axis: str, lines: dict[str, list[tuple[float, float]]]) -> None:
    path.write_text(render_line_chart(title, axis, "lateness", lines), encoding="utf-8")
    print_message(f"drawn: {path}")


def _format_figure(value: float | None) -> str:
    return "–" if value is None else f"{value:.4g}"
