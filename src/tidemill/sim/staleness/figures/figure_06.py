"""Figure 6: uniform tables on steady machines; five tracks, or EDF-partitioned tracks would not do."""

from __future__ import annotations

from tidemill.sim.staleness.experiment import Check, Curves, Experiment, Series
from tidemill.sim.staleness.figures.judging import SAME, never_worse, shared
from tidemill.sim.staleness.figures.table_2 import JOBS, at_loads, many
from tidemill.sim.staleness.workload import Way

SINGLE, RANDOM, PARTITIONED, PROPORTIONAL = "Max Benefit", "random", "partitioned", "proportional"
TABLES = at_loads(many(JOBS, "t"), tracks=5, slowdown=None)


def _late_near_the_end(curves: Curves) -> bool:
    return all(curves[SINGLE][x] < 1.1 for x in curves[SINGLE] if x <= 0.9) and curves[SINGLE][1.1] > 1.1


def _worst(curves: Curves) -> bool:
    """Wherever lateness shows at all."""
    others = [curves[name] for name in (SINGLE, RANDOM, PROPORTIONAL)]
    where = shared(curves[PARTITIONED], *others)
    late = [x for x in where if curves[PARTITIONED][x] > 1 + SAME]
    return bool(late) and all(curves[PARTITIONED][x] > max(other[x] for other in others) for x in late)


def _no_overhead(curves: Curves) -> bool:
    one, other = curves[PROPORTIONAL], curves[SINGLE]
    return never_worse(one, other) and never_worse(other, one)


FIGURE_6 = Experiment(
    6,
    "Uniform tables, no slow times, five tracks",
    "load",
    (0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 1.0, 1.05, 1.1),
    {
        SINGLE: Series(TABLES, Way()),
        RANDOM: Series(TABLES, Way("random")),
        PARTITIONED: Series(TABLES, Way(placement="partitioned")),
        PROPORTIONAL: Series(TABLES, Way(placement="proportional-basic")),
    },
    (
        Check("tables are late only from nearly 100 % load on", _late_near_the_end),
        Check("partitioned tracks are the worst, even worse than chance", _worst),
        Check("proportional tracks cost nothing against one queue", _no_overhead),
    ),
)
