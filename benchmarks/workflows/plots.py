"""Charts of the three workflows: lag and cost over time, a line for each mode."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import log10

from benchmarks.workflows import WORKFLOWS
from benchmarks.workflows.modes import MODES
from benchmarks.workflows.run import Outcome
from benchmarks.workflows.scenario import HOUR
from benchmarks.workflows.tables import simulate_scenario
from tidemill.model.time import Version
from tidemill.sim.chart import render_line_chart

DAY = 24 * HOUR
POINTS = 200
"""Maximum number of points of a line."""

Line = list[tuple[float, float]]


def draw_charts(duration: Version, seed: int = 1) -> Iterator[tuple[str, str]]:
    """Names of the charts, and their SVG documents."""
    for scenario in WORKFLOWS:
        outcomes = {mode: simulate_scenario(change(scenario), "DP", duration, seed) for mode, change in MODES.items()}
        yield f"{scenario.name}-lag", _draw_lags(scenario.name, outcomes)
        yield f"{scenario.name}-cost", _draw_costs(scenario.name, outcomes)


def _draw_lags(name: str, outcomes: Mapping[str, Outcome]) -> str:
    lines = {
        mode: [(t / DAY, log10(max(lag, 1e-6))) for t, lag in _select_points(o.lags)] for mode, o in outcomes.items()
    }
    return render_line_chart(f"{name}: lag", "days", "log10 of CPU hours", lines)


def _draw_costs(name: str, outcomes: Mapping[str, Outcome]) -> str:
    lines = {mode: [(t / DAY, cost) for t, cost in _select_points(o.costs)] for mode, o in outcomes.items()}
    return render_line_chart(f"{name}: cost so far", "days", "CPU hours", lines)


def _select_points(points: list[tuple[Version, float]]) -> list[tuple[Version, float]]:
    """A subset of at most about `POINTS` points, evenly spaced."""
    return points[:: max(1, len(points) // POINTS)]
