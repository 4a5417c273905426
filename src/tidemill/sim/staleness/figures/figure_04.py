"""Figure 4: how slow slow times are."""

from __future__ import annotations

from itertools import pairwise

from tidemill.sim.staleness.experiment import Check, Curves, Experiment, Series
from tidemill.sim.staleness.figures.judging import CLEARLY, NOISE, times
from tidemill.sim.staleness.figures.table_2 import JOBS, at_loads, many
from tidemill.sim.staleness.workload import Slowdown, Way

FACTORS = (2, 3, 5, 9)


def _grows(curves: Curves) -> bool:
    return all(times(curves[b], curves[a]) > 1 - NOISE for a, b in pairwise(map(_word, FACTORS)))


def _matters(curves: Curves) -> bool:
    return times(curves[_word(FACTORS[-1])], curves[_word(FACTORS[0])]) > 1 + CLEARLY


def _word(factor: int) -> str:
    return f"S = {factor}"


FIGURE_4 = Experiment(
    4,
    "Slow times",
    "load",
    (0.5, 0.6, 0.7, 0.8, 0.9),
    {_word(s): Series(at_loads(many(JOBS, "t"), slowdown=Slowdown(float(s))), Way()) for s in FACTORS},
    (
        Check("at the same average load, the slower slow times are, the later are tables", _grows),
        Check("how slow they are matters", _matters),
    ),
)
