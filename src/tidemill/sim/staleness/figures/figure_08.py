"""Figure 8: chains of three tables; what the last of them is worth is what the first are there for."""

from __future__ import annotations

from tidemill.schedule.hierarchy import Inheritance
from tidemill.schedule.job import Profile
from tidemill.sim.staleness.experiment import Check, Curves, Experiment, Series
from tidemill.sim.staleness.figures.judging import CLEARLY, NOISE, best_on_average, times
from tidemill.sim.staleness.figures.table_2 import at_loads, table
from tidemill.sim.staleness.workload import Way

CHAINS = 9
"""Not ten: as many of each priority."""

LAST = (1.0, 10.0, 100.0)
HEIRS = (Inheritance.SUM, Inheritance.MAX, Inheritance.MAX_PLUS)
LOADED = (0.7, 0.8, 0.85, 0.9, 0.95)


def _chains() -> list[Profile]:
    return [t for i in range(CHAINS) for t in _chain(f"{i:02}", LAST[i % len(LAST)])]


def _chain(name: str, last: float) -> list[Profile]:
    return [
        table(f"base{name}", 0.001),
        table(f"next{name}", 1.0, f"base{name}"),
        table(f"last{name}", last, f"next{name}"),
    ]


def _needed(curves: Curves) -> bool:
    none = curves[Inheritance.NONE]
    return all(times(none, curves[how], LOADED) > 1 + CLEARLY for how in HEIRS)


def _similar(curves: Curves) -> bool:
    return all(times(curves[one], curves[other]) < 1 + CLEARLY for one in HEIRS for other in HEIRS)


def _none_is_better_than_max(curves: Curves) -> bool:
    return best_on_average(curves[Inheritance.MAX], [curves[how] for how in HEIRS])


def _none_is_worse_than_sum(curves: Curves) -> bool:
    return all(times(curves[how], curves[Inheritance.SUM]) <= 1 + NOISE for how in HEIRS)


TABLES = at_loads(_chains())

FIGURE_8 = Experiment(
    8,
    "Chains of three tables",
    "load",
    (0.3, 0.4, 0.5, 0.6, *LOADED),
    {how.value: Series(TABLES, Way(inheritance=how)) for how in Inheritance},
    (
        Check("without inheritance tables are far later", _needed),
        Check("the ways to inherit differ little", _similar),
        Check("of those, none is better than max", _none_is_better_than_max),
        Check("and none is worse than sum", _none_is_worse_than_sum),
    ),
)
