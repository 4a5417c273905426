"""The paper's tables 5 and 6, measured again: a row for each workflow and mode.

The paper's rates are not known, so its figures are not targets; only their relations can be compared, which
`table_claims` declares.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from statistics import mean, median
from typing import TypedDict

from benchmarks.workflows import WORKFLOWS
from benchmarks.workflows.modes import MODES, PLANNERS, Planner
from benchmarks.workflows.run import Outcome, Simulation, Stopwatch, create_noise
from benchmarks.workflows.scenario import HOUR, WEEK, Scenario
from tidemill.model.time import Version
from tidemill.planner.graph_index import GraphIndex

TEN_WEEKS = 10 * WEEK
TWELVE_HOURS = 12 * HOUR


class Row(TypedDict):
    """A row of a table; lag and cost are CPU hours, the means over seeds."""

    workflow: str
    mode: str
    lag: float
    cost: float
    repairs: float  # number of refreshes of outputs
    scheduler_s: float
    paper_lag: float
    paper_cost: float
    lags: list[float]  # the median of each seed
    costs: list[float]


def skip_timing() -> float:
    """A stopwatch that always shows zero: the time of planning is not measured."""
    return 0.0


def measure_table_5(
    duration: Version = TEN_WEEKS, *, seeds: Sequence[int] = (1,), stopwatch: Stopwatch = skip_timing
) -> list[Row]:
    """Asynchronous and incremental processing, against synchronous and batch."""
    return [
        _create_row(scenario, mode, [simulate_scenario(change(scenario), "DP", duration, s, stopwatch) for s in seeds])
        for scenario in WORKFLOWS
        for mode, change in MODES.items()
    ]


def measure_table_6(
    duration: Version = TWELVE_HOURS, *, seeds: Sequence[int] = (1,), stopwatch: Stopwatch = skip_timing
) -> list[Row]:
    """The dynamic program, against simpler planners."""
    return [
        _create_row(scenario, planner, [simulate_scenario(scenario, planner, duration, s, stopwatch) for s in seeds])
        for scenario in WORKFLOWS
        for planner in PLANNERS
    ]


def simulate_scenario(
    scenario: Scenario, planner: str, duration: Version, seed: int = 1, stopwatch: Stopwatch = skip_timing
) -> Outcome:
    def create_planner(index: GraphIndex) -> Planner:
        return PLANNERS[planner](scenario, index, Random(seed))

    return Simulation(scenario, create_planner, create_noise(seed), stopwatch).run(duration)


def compute_median_lag(outcome: Outcome) -> float:
    return median([lag for _, lag in outcome.lags] or [float("inf")])


def compute_lag_over_time(outcome: Outcome, every: Version = WEEK) -> list[float]:
    """The median lag of each interval with refreshes."""
    intervals: dict[Version, list[float]] = {}
    for time, lag in outcome.lags:
        intervals.setdefault(time // every, []).append(lag)
    return [median(lags) for _, lags in sorted(intervals.items())]


def _create_row(scenario: Scenario, mode: str, outcomes: Sequence[Outcome]) -> Row:
    figure = scenario.paper[mode]
    return Row(
        workflow=scenario.name,
        mode=mode,
        lag=mean(lags := [compute_median_lag(o) for o in outcomes]),
        cost=mean(costs := [o.cost for o in outcomes]),
        repairs=mean(len(o.lags) for o in outcomes),
        scheduler_s=mean(o.scheduler_s for o in outcomes),
        paper_lag=figure.lag,
        paper_cost=figure.cost,
        lags=lags,
        costs=costs,
    )
