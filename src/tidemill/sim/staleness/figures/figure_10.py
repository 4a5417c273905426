"""Figure 10: three kinds of proportional tracks."""

from __future__ import annotations

from tidemill.sim.staleness.experiment import Check, Curves, Experiment, Series
from tidemill.sim.staleness.figures.heterogeneous import LOADS, TABLES
from tidemill.sim.staleness.figures.judging import CLEARLY, SAME, best_on_average, times
from tidemill.sim.staleness.workload import Way

BASIC, ALL, AGGRESSIVE = "basic", "all tracks", "all tracks, aggressive"
LOW = tuple(x for x in LOADS if x <= 0.6)


def _all_is_better_low(curves: Curves) -> bool:
    return times(curves[BASIC], curves[ALL], LOW) > 1 + CLEARLY


def _aggressive_is_best(curves: Curves) -> bool:
    return best_on_average(curves[AGGRESSIVE], [curves[BASIC], curves[ALL]])


def _aggressive_is_good_everywhere(curves: Curves) -> bool:
    """Nowhere later than the better of the others, but for noise."""
    best = {x: min(curves[BASIC][x], curves[ALL][x]) for x in LOADS}
    return all(curves[AGGRESSIVE][x] <= best[x] * (1 + SAME) for x in LOADS)


FIGURE_10 = Experiment(
    10,
    "Kinds of proportional tracks",
    "load",
    LOADS,
    {
        BASIC: Series(TABLES, Way(placement="proportional-basic")),
        ALL: Series(TABLES, Way(placement="proportional-all")),
        AGGRESSIVE: Series(TABLES, Way(placement="proportional")),
    },
    (
        Check("sharing out all tracks is clearly better at low load", _all_is_better_low),
        Check("aggressive guests on all tracks are best overall", _aggressive_is_best),
        Check("and good at all loads", _aggressive_is_good_everywhere),
    ),
)
