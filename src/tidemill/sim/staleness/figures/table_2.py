"""The parameters of the paper's table 2, and the tables that its experiments share."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tidemill.schedule.job import Cost, Profile
from tidemill.sim.staleness.workload import Slowdown, Workload

START, RATE, PERIOD = 1.0, 0.1, 100.0
JOBS, TRACKS, NOISE = 30, 4, 0.5
SLOW = Slowdown(factor=3.0)
LONG = Slowdown(factor=3.0, length=10_007.3)
"""The paper does not say how long slow times are. Where that decides, they are long: a hundred periods."""

LOADS = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 1.0)


def table(name: str, priority: float = 1.0, *parents: str, period: float = PERIOD, rate: float = RATE) -> Profile:
    return Profile(name, period, Cost(START, rate), priority, parents)


def many(count: int, word: str, priority: float = 1.0, *, period: float = PERIOD, rate: float = RATE) -> list[Profile]:
    return [table(f"{word}{i:02}", priority, period=period, rate=rate) for i in range(count)]


def at_loads(
    tables: Iterable[Profile], tracks: int = TRACKS, slowdown: Slowdown | None = SLOW
) -> Callable[[float], Workload]:
    """The same tables at any load."""
    return Workload(tuple(tables), tracks, slowdown, NOISE).at
