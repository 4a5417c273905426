"""The paper's tables 5 and 6, measured again: a row for each workflow and mode, and what must be true of them.

The paper's rates are not known, so its figures are no targets; what can be held to account is their shape.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from random import Random
from statistics import mean, median
from typing import Literal, TypedDict

from tidemill.model.time import Version
from tidemill.sim.modes import ASYNC_BATCH, ASYNC_INCR, MODES, PLANNERS, SYNC_BATCH, SYNC_INCR
from tidemill.sim.run import Outcome, Simulation, Stopwatch
from tidemill.sim.scenario import HOUR, WEEK, Scenario
from tidemill.sim.workflows import WORKFLOWS

TEN_WEEKS = 10 * WEEK
TWELVE_HOURS = 12 * HOUR


class Row(TypedDict):
    """A row of a table; lag and cost are CPU hours."""

    workflow: str
    mode: str
    lag: float
    cost: float
    repairs: float  # how often an output was made fresh again
    scheduler_s: float
    paper_lag: float
    paper_cost: float


def untimed() -> float:
    """For those who do not ask what planning itself costs."""
    return 0.0


def table_5(duration: Version = TEN_WEEKS, *, seeds: Sequence[int] = (1,), stopwatch: Stopwatch = untimed) -> list[Row]:
    """Asynchronous and incremental processing, against synchronous and batch."""
    return [
        _row(scenario, mode, [simulated(change(scenario), "DP", duration, s, stopwatch) for s in seeds])
        for scenario in WORKFLOWS
        for mode, change in MODES.items()
    ]


def table_6(
    duration: Version = TWELVE_HOURS, *, seeds: Sequence[int] = (1,), stopwatch: Stopwatch = untimed
) -> list[Row]:
    """The dynamic program, against simpler planners."""
    return [
        _row(scenario, planner, [simulated(scenario, planner, duration, s, stopwatch) for s in seeds])
        for scenario in WORKFLOWS
        for planner in PLANNERS
    ]


def simulated(
    scenario: Scenario, planner: str, duration: Version, seed: int = 1, stopwatch: Stopwatch = untimed
) -> Outcome:
    random = Random(seed)
    return Simulation(scenario, lambda layout: PLANNERS[planner](scenario, layout, random), random, stopwatch).run(
        duration
    )


def median_lag(outcome: Outcome) -> float:
    return median([lag for _, lag in outcome.lags] or [float("inf")])


def lag_over_time(outcome: Outcome, every: Version = WEEK) -> list[float]:
    """The median lag of each stretch of time in which something was repaired."""
    stretches: dict[Version, list[float]] = {}
    for moment, lag in outcome.lags:
        stretches.setdefault(moment // every, []).append(lag)
    return [median(lags) for _, lags in sorted(stretches.items())]


def _row(scenario: Scenario, mode: str, outcomes: Sequence[Outcome]) -> Row:
    figure = scenario.paper[mode]
    return Row(
        workflow=scenario.name,
        mode=mode,
        lag=mean(map(median_lag, outcomes)),
        cost=mean(o.cost for o in outcomes),
        repairs=mean(len(o.lags) for o in outcomes),
        scheduler_s=mean(o.scheduler_s for o in outcomes),
        paper_lag=figure.lag,
        paper_cost=figure.cost,
    )


def doubts_5(rows: Iterable[Row]) -> list[str]:
    """What is not as in table 5: each mode is later and dearer than the ones before it."""
    orders = [(ASYNC_INCR, SYNC_INCR), (SYNC_INCR, ASYNC_BATCH), (ASYNC_BATCH, SYNC_BATCH)]
    return _doubts(rows, orders)


def doubts_6(rows: Iterable[Row]) -> list[str]:
    """What is not as in table 6: greed is later and dearer than the dynamic program, and chance than greed."""
    return _doubts(rows, [("DP", "GREEDY"), ("GREEDY", "RANDOM")])


def _doubts(rows: Iterable[Row], orders: Sequence[tuple[str, str]]) -> list[str]:
    figures: tuple[Literal["lag", "cost"], ...] = ("lag", "cost")
    return [
        f"{workflow}: {figure} of {one} is {modes[one][figure]:.4g}, of {other} {modes[other][figure]:.4g}"
        for workflow, modes in _by_workflow(rows).items()
        for one, other in orders
        for figure in figures
        if modes[one][figure] > modes[other][figure] * (1 + TOLERANCE)
    ]


TOLERANCE = 0.1
"""By how much noise alone may turn an order round."""


def _by_workflow(rows: Iterable[Row]) -> dict[str, dict[str, Row]]:
    found: dict[str, dict[str, Row]] = {}
    for row in rows:
        found.setdefault(row["workflow"], {})[row["mode"]] = row
    return found
