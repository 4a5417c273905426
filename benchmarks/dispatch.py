"""What dispatching itself costs: a simulation of many events, and one decision among many tables.

Every event of the simulations goes through the interface that the live dispatcher uses. A decision is what happens
between the end of a run and the start of the next: the run is taken note of, its table has new data, and somebody is
chosen among all that wait. The dearest decision of policies that go in rounds is the one that begins a new round.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from random import Random
from statistics import median
from typing import Any

from benchmarks.figures.table_2 import JOBS, at_loads, many
from tidemill.scheduler.dispatcher import Dispatcher, DispatchLimits
from tidemill.scheduler.hierarchy import PriorityInheritance, build_jobs
from tidemill.scheduler.job import Job, JobProfile, UpdateCost
from tidemill.scheduler.policies import POLICIES
from tidemill.scheduler.round_policy import RoundPolicy
from tidemill.scheduler.tracks import PLACEMENTS
from tidemill.sim.staleness.run import simulate_workload
from tidemill.sim.staleness.workload import SimulationConfig

LOAD = 0.95
TRACKS = 4
DECISIONS = 200
PATIENCE = 10.0

WAYS: Mapping[str, SimulationConfig] = {
    "max-benefit, single": SimulationConfig(patience=PATIENCE),
    "max-benefit, proportional": SimulationConfig(placement="proportional", patience=PATIENCE),
    "edf, single": SimulationConfig("edf", patience=PATIENCE),
}


def measure(*, events: int, tables: int, rounds: int, tell: Callable[[str], None]) -> dict[str, Any]:
    """CPU seconds of simulations and milliseconds of decisions; medians, the least of the rounds, the slowest decision.

    On busy cores even CPU time is longer than it need be; the least says most of the code.
    """
    workload = at_loads(many(JOBS, "t"), None, TRACKS)(LOAD)
    simulations = []
    for name, way in WAYS.items():
        tell(f"{events} events: {name}")
        took = [_seconds(partial(simulate_workload, workload, way, events)) for _ in range(rounds)]
        figures = {"seconds": round(median(took), 3), "least_s": round(min(took), 3)}
        simulations.append({"way": name, "events": events, **figures})
    decisions = []
    for policy in POLICIES:
        tell(f"decisions among {tables} tables: {policy}")
        taken = {**_decisions(policy, tables), "new_round_ms": _new_round_ms(policy, tables, rounds)}
        decisions.append({"policy": policy, "tables": tables, **taken})
    return {"simulations": simulations, "decisions": decisions}


def waiting(policy: str, tables: int) -> tuple[Dispatcher, list[Job]]:
    """Tables of all kinds; data wait for every other of them, and should soon come for the rest."""
    random = Random(1)
    jobs = build_jobs([_profile(i, random) for i in range(tables)], PriorityInheritance.NONE)
    for job in jobs[1::2]:
        job.expected = random.uniform(1.0, job.profile.period)
    mill = Dispatcher(jobs, POLICIES[policy](), PLACEMENTS["proportional"], TRACKS, DispatchLimits(3.0, PATIENCE))
    for i, job in enumerate(jobs[::2]):
        job.add_batch((i / tables, i / tables))
        mill.mark_ready(job, i / tables)
    return mill, jobs


def new_round(policy: str, tables: int) -> Dispatcher:
    """Everybody has had its share of a round, and the last of them has just ended, on the only track."""
    jobs = build_jobs(
        [JobProfile(f"t{i}", 60.0, UpdateCost(1.0, 0.0)) for i in range(tables)], PriorityInheritance.NONE
    )
    mill = Dispatcher(jobs, POLICIES[policy](), PLACEMENTS["single"], 1, DispatchLimits(None, None))
    for job in jobs:
        for upto in (0.0, 1.0):
            job.add_batch((0.0, upto))
        mill.mark_ready(job, 0.0)
    for _ in jobs:
        ((job, _, _),) = mill.dispatch_jobs(0.0)
        job.load_batches(1, 0.0)
        mill.mark_finished(job, 0.0, 1, 1e6)
    return mill


def _new_round_ms(policy: str, tables: int, rounds: int) -> float | None:
    if not isinstance(POLICIES[policy](), RoundPolicy):
        return None
    taken = [_seconds(partial(new_round(policy, tables).dispatch_jobs, 1.0)) for _ in range(rounds)]
    return round(1000 * median(taken), 4)


def _profile(number: int, random: Random) -> JobProfile:
    period = random.choice((60.0, 300.0, 3600.0, 86400.0))
    return JobProfile(
        f"t{number}", period, UpdateCost(1.0, random.uniform(0.001, 0.1)), random.choice((1.0, 10.0, 100.0))
    )


def _decisions(policy: str, tables: int) -> dict[str, float]:
    mill, _ = waiting(policy, tables)
    running = mill.dispatch_jobs(1.0)
    taken = []
    for number in range(DECISIONS):
        job, _, grain = running.pop(0)
        now = 1.0 + number
        job.load_batches(grain, now)
        job.add_batch((now, now))
        began = time.process_time()
        mill.mark_finished(job, now, grain, 1.0)
        started = mill.dispatch_jobs(now)
        taken.append(1000 * (time.process_time() - began))
        running += started
    return {"median_ms": round(median(taken), 4), "slowest_ms": round(max(taken), 4)}


def _seconds(action: Callable[[], object]) -> float:
    began = time.process_time()
    action()
    return time.process_time() - began
