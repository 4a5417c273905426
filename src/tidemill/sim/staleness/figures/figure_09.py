"""Figure 9: short and long updates on one queue, on partitioned and on proportional tracks."""

from __future__ import annotations

from tidemill.sim.staleness.experiment import Check, Curves, Experiment, Series
from tidemill.sim.staleness.figures.heterogeneous import LOADS, TABLES
from tidemill.sim.staleness.figures.judging import CLEARLY, best_on_average, shared, times
from tidemill.sim.staleness.workload import Way

SINGLE, PARTITIONED, PROPORTIONAL = "Max Benefit", "partitioned", "proportional"


def _low(curves: Curves) -> bool:
    where = [x for x in shared(curves[SINGLE], curves[PARTITIONED]) if x <= 0.6]
    return times(curves[SINGLE], curves[PARTITIONED], where) > 1 + CLEARLY


def _high(curves: Curves) -> bool:
    most = max(shared(curves[SINGLE], curves[PARTITIONED]))
    return curves[PARTITIONED][most] > curves[SINGLE][most]


def _best(curves: Curves) -> bool:
    return best_on_average(curves[PROPORTIONAL], [curves[SINGLE], curves[PARTITIONED]])


FIGURE_9 = Experiment(
    9,
    "Short and long updates",
    "load",
    LOADS,
    {
        SINGLE: Series(TABLES, Way()),
        PARTITIONED: Series(TABLES, Way(placement="partitioned")),
        PROPORTIONAL: Series(TABLES, Way(placement="proportional-basic")),
    },
    (
        Check("partitioned tracks are clearly better than one queue up to 60 % load", _low),
        Check("at the highest load they bear they are worse", _high),
        Check("proportional tracks are best overall", _best),
    ),
)
