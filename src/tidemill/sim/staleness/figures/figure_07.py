"""Figure 7: half of the tables matter ten times as much."""

from __future__ import annotations

from tidemill.sim.staleness.experiment import Check, Curves, Experiment, Series
from tidemill.sim.staleness.figures.judging import CLEARLY, never_worse, times
from tidemill.sim.staleness.figures.table_2 import JOBS, LOADS, at_loads, many
from tidemill.sim.staleness.workload import Way

BENEFIT, EDF, RANDOM = "Max Benefit", "EDF", "random"
TABLES = at_loads([*many(JOBS // 2, "low", 1.0), *many(JOBS // 2, "high", 10.0)])
HIGH = (0.85, 0.9, 0.95, 1.0)


def _lower(curves: Curves) -> bool:
    return all(times(curves[name], curves[BENEFIT], HIGH) > 1 + CLEARLY for name in (EDF, RANDOM))


def _everywhere(curves: Curves) -> bool:
    return all(never_worse(curves[BENEFIT], curves[name]) for name in (EDF, RANDOM))


FIGURE_7 = Experiment(
    7,
    "Two classes of priority",
    "load",
    LOADS,
    {
        BENEFIT: Series(TABLES, Way("max-benefit")),
        EDF: Series(TABLES, Way("edf")),
        RANDOM: Series(TABLES, Way("random")),
    },
    (
        Check("under high load who heeds priorities is far less late than who does not", _lower),
        Check("and never later", _everywhere),
    ),
)
