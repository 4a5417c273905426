"""Figure 5: Max Benefit or prioritised EDF, for tables of which half take ten times as long for the same data."""

from __future__ import annotations

from tidemill.sim.staleness.experiment import Check, Curve, Curves, Experiment, Series
from tidemill.sim.staleness.figures.judging import SAME, shared
from tidemill.sim.staleness.figures.table_2 import JOBS, LONG, at_loads, many
from tidemill.sim.staleness.workload import Way

BENEFIT, DEADLINE = "Max Benefit", "prioritised EDF"
TABLES = at_loads([*many(JOBS // 2, "slow"), *many(JOBS // 2, "quick", rate=0.01)], slowdown=LONG)


def _better(one: Curve, other: Curve) -> list[float]:
    return [x for x in shared(one, other) if one[x] < other[x] * (1 - SAME)]


def _onset(curves: Curves) -> bool:
    """At some load before the tracks are nearly full."""
    return any(x < 0.85 for x in _better(curves[DEADLINE], curves[BENEFIT]))


def _overload(curves: Curves) -> bool:
    return {0.9, 1.0, 1.1} <= set(_better(curves[BENEFIT], curves[DEADLINE]))


FIGURE_5 = Experiment(
    5,
    "Max Benefit or prioritised EDF",
    "load",
    (0.5, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 1.0, 1.1),
    {BENEFIT: Series(TABLES, Way("max-benefit")), DEADLINE: Series(TABLES, Way("edf-priority"))},
    (
        Check("where lateness begins to climb, prioritised EDF is better", _onset),
        Check("from 90 % load on Max Benefit is better", _overload),
    ),
)
