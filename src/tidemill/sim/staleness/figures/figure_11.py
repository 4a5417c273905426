"""Figure 11: chopping updates to three periods after slow times; chains of two tables.

Nothing is inherited: with it the first of a chain would matter as much as the second, and nobody would be put off.
"""

from __future__ import annotations

from tidemill.schedule.hierarchy import Inheritance
from tidemill.schedule.job import Profile
from tidemill.sim.staleness.experiment import Check, Curves, Experiment, Series
from tidemill.sim.staleness.figures.judging import NOISE, never_worse, times
from tidemill.sim.staleness.figures.table_2 import JOBS, LONG, at_loads, table
from tidemill.sim.staleness.workload import Way

WHOLE, CHOPPED = "whole", "chopped"
HIGH = (0.85, 0.9, 0.95, 1.0)


def _pairs() -> list[Profile]:
    return [t for i in range(JOBS // 2) for t in (table(f"a{i:02}"), table(f"b{i:02}", 10.0, f"a{i:02}"))]


def _helps(curves: Curves) -> bool:
    return times(curves[WHOLE], curves[CHOPPED], HIGH) > 1 + NOISE


def _never_hurts(curves: Curves) -> bool:
    return never_worse(curves[CHOPPED], curves[WHOLE])


TABLES = at_loads(_pairs(), slowdown=LONG)

FIGURE_11 = Experiment(
    11,
    "Chopped updates",
    "load",
    (0.5, 0.6, 0.7, 0.8, *HIGH),
    {
        WHOLE: Series(TABLES, Way(inheritance=Inheritance.NONE)),
        CHOPPED: Series(TABLES, Way(inheritance=Inheritance.NONE, chop=3.0)),
    },
    (
        Check("chopping makes tables less late under high load", _helps),
        Check("and never later", _never_hurts),
    ),
)
