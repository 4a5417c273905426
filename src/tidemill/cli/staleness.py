"""`sim staleness`: the experiments on update scheduling, and a user's own tables."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import RenderableType

from tidemill.cli.options import AsJson
from tidemill.cli.output import fields, show, table, tell
from tidemill.errors import ConfigError
from tidemill.sim.chart import line_chart
from tidemill.sim.claims import Judgement
from tidemill.sim.staleness.described import described
from tidemill.sim.staleness.experiment import EVENTS, SEEDS, Curves, Experiment, Result, measured
from tidemill.sim.staleness.figures import FIGURES
from tidemill.sim.staleness.sizing import Sizing, sized


def staleness(
    figure: Annotated[
        int | None, typer.Option(min=min(FIGURES), max=max(FIGURES), help="The paper's figure to measure again.")
    ] = None,
    workload: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="Your own tables, as TOML or JSON.")
    ] = None,
    events: Annotated[int, typer.Option(min=100, help="Events of each simulation; the paper has 1 000 000.")] = EVENTS,
    seeds: Annotated[
        int | None,
        typer.Option(min=1, help="Simulations of each point, whose mean is shown; three for a figure, else one."),
    ] = None,
    plot: Annotated[Path | None, typer.Option(dir_okay=False, help="Draw the curves into this SVG file.")] = None,
    as_json: AsJson = False,
) -> None:
    """How stale tables get on the tracks there are: the experiments of the paper on update scheduling, or your own.

    Lateness is weighted staleness in multiples of what it would be with a track for every table. A figure is printed
    with what the paper claims, the rule that decides and the set-up. A claim that does not hold is no failure if that
    is known and explained; the exit code is 1 if a verdict is another one than declared.
    """
    if (figure is None) == (workload is None):
        raise typer.BadParameter("expected either --figure or --workload")
    if figure is not None:
        _show_figure(measured(FIGURES[figure], events, range(1, (seeds or SEEDS) + 1)), plot, as_json)
    elif workload is not None:
        _show_sizing(sized(described(_document(workload)), events, range(1, (seeds or 1) + 1)), plot, as_json)


def _show_figure(result: Result, plot: Path | None, as_json: bool) -> None:
    experiment = result.experiment
    title = f"Figure {experiment.figure}: {experiment.title}"
    lines = {
        f"{name}, {setup}" if len(result.samples) > 1 else name: curve
        for setup, sample in result.samples.items()
        for name, curve in sample.mean.items()
    }
    if plot is not None:
        _draw(plot, title, experiment.axis, {name: list(curve.items()) for name, curve in lines.items()})
    tables = [_curves(f"{title} ({setup})", experiment, sample.mean) for setup, sample in result.samples.items()]
    show(as_json, result.to_json(), *tables, *result.judgement.to_text())
    report_changes(result.judgement, as_declared=result.as_declared)


def _curves(title: str, experiment: Experiment, curves: Curves) -> RenderableType:
    rows = [[f"{x:g}", *(_figure(curve.get(x)) for curve in curves.values())] for x in experiment.values]
    return table(title, [f">{experiment.axis}", *(f">{name}" for name in curves)], rows)


def report_changes(judgement: Judgement, *, as_declared: bool) -> None:
    """Fail if a verdict is not the declared one. Another set-up than the declared one is told, and proves nothing."""
    for change in judgement.unexpected:
        tell(f"not as declared: {change}")
    if judgement.unexpected and as_declared:
        raise typer.Exit(1)


def _show_sizing(sizing: Sizing, plot: Path | None, as_json: bool) -> None:
    asked, document = sizing.described, sizing.to_json()
    if plot is not None:
        points = [(float(tracks), lateness) for tracks, lateness in sizing.lateness.items()]
        _draw(plot, "Lateness by tracks", "tracks", {asked.way.policy: points})
    summary = fields(
        [
            ("policy", f"{asked.way.policy} on {asked.workload.tracks} tracks, {asked.way.placement}"),
            ("load", f"{asked.workload.load:.0%} if nothing were ever late"),
            ("busy", f"{sizing.busy:.0%} of the tracks' time"),
        ]
    )
    tables = [[t["table"], _figure(t["staleness"]), _figure(t["best"]), f"{t['runs']:.0f}"] for t in document["tables"]]
    tracks = [[n, _figure(lateness)] for n, lateness in sizing.lateness.items()]
    show(
        as_json,
        document,
        summary,
        table("Staleness on average, in seconds", ("table", ">staleness", ">at best", ">runs"), tables),
        table("On other numbers of tracks", (">tracks", ">lateness"), tracks),
    )


def _draw(path: Path, title: str, axis: str, lines: dict[str, list[tuple[float, float]]]) -> None:
    path.write_text(line_chart(title, axis, "lateness", lines), encoding="utf-8")
    tell(f"drawn: {path}")


def _document(path: Path) -> dict[str, Any]:
    text = path.read_text(encoding="utf-8")
    try:
        found = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except ValueError as error:  # of either
        raise ConfigError(f"{path} is neither TOML nor, with .json at its end, JSON: {error}") from error
    if not isinstance(found, dict):
        raise ConfigError(f"{path}: expected tables by name, found {type(found).__name__}")
    return found


def _figure(value: float | None) -> str:
    return "–" if value is None else f"{value:.4g}"
