"""The parameters of the paper's table 2, which its experiments share.

The paper does not give the length of slow times. So three lengths are declared, and claims about slow times must hold
for each of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial

from benchmarks.figures.experiment import Series
from benchmarks.figures.slow_periods import Slowdown, scale_to_load
from tidemill.scheduler.job import JobProfile, UpdateCost
from tidemill.sim.staleness.workload import SimulationConfig, Workload

START, RATE, PERIOD = 1.0, 0.1, 100.0
JOBS, TRACKS, NOISE = 30, 4, 0.5
SLOWER = 3.0

LENGTHS: Mapping[str, float] = {"5 periods": 503.3, "20 periods": 2003.3, "100 periods": 10_007.3}
"""Lengths of slow times and of the normal times between them; not multiples of any period."""

LOADS = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 1.0)

PARAMETERS: Mapping[str, str] = {
    "tables": "30, each with a period of 100, a start of 1 and a rate of 0.1, scaled to the load (table 2)",
    "tracks": "4 (table 2)",
    "run times": "uniform between half and one and a half of the expected (B = 0.5, table 2)",
    "slow times": "S = 3, as long as normal times (4.1); length not given: 5, 20 and 100 periods, each declared",
    "dispatching": "Max Benefit on one queue for all tracks; known costs are averages over slow and normal times",
    "phases": "random",
    "events": "100 000 per simulation, three seeds (the paper: 1 000 000, number of seeds not given)",
    "measure": "added lateness above 1; noise is 5 % of the larger, or at one load 0.01; clearly is 20 %",
}
"""The defaults of all figures."""


def create_table(
    name: str, priority: float = 1.0, *parents: str, period: float = PERIOD, rate: float = RATE
) -> JobProfile:
    return JobProfile(name, period, UpdateCost(START, rate), priority, parents)


def create_tables(
    count: int, prefix: str, priority: float = 1.0, *, period: float = PERIOD, rate: float = RATE
) -> list[JobProfile]:
    return [create_table(f"{prefix}{i:02}", priority, period=period, rate=rate) for i in range(count)]


def scale_tables(
    tables: Iterable[JobProfile], slowdown: Slowdown | None, tracks: int = TRACKS
) -> Callable[[float], Workload]:
    """A function that scales the tables to a load."""
    return partial(scale_to_load, Workload(tuple(tables), tracks, slowdown, NOISE))


def create_setups(
    tables: Iterable[JobProfile], configs: Mapping[str, SimulationConfig]
) -> dict[str, dict[str, Series]]:
    """A set-up for each length of slow times."""
    profiles = list(tables)
    return {
        name: {
            curve: Series(scale_tables(profiles, Slowdown(SLOWER, length)), config) for curve, config in configs.items()
        }
        for name, length in LENGTHS.items()
    }
