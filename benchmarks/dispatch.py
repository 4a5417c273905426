"""Cost of dispatching: a simulation of many events, and one decision among many tables.

Every event of the simulations passes the interface that the live dispatcher uses. A decision covers the work between
the end of a run and the start of the next: the run is recorded, its table gets new data, and one of the waiting tables
is chosen. For round-based policies the most expensive decision is the one that begins a new round.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from random import Random
from statistics import median
from typing import Any

from benchmarks.figures.table_2 import JOBS, create_tables, scale_tables
from tidemill.scheduler.dispatcher import Dispatcher, DispatchLimits
from tidemill.scheduler.hierarchy import PriorityInheritance, build_jobs
from tidemill.scheduler.job import Job, JobProfile, UpdateCost
from tidemill.scheduler.policies import POLICIES
from tidemill.scheduler.sorted_policy import RoundPolicy
from tidemill.scheduler.tracks import PLACEMENTS
from tidemill.sim.staleness.run import simulate_workload
from tidemill.sim.staleness.workload import SimulationConfig

LOAD = 0.95
TRACKS = 4
DECISIONS = 200
PATIENCE = 10.0

CONFIGS: Mapping[str, SimulationConfig] = {
    "max-benefit, single": SimulationConfig(patience=PATIENCE),
    "max-benefit, proportional": SimulationConfig(placement="proportional", patience=PATIENCE),
    "edf, single": SimulationConfig("edf", patience=PATIENCE),
}


def measure(*, events: int, tables: int, rounds: int, on_progress: Callable[[str], None]) -> dict[str, Any]:
    """CPU seconds of simulations and milliseconds of decisions; medians, the minimum of rounds, the slowest decision.

    On busy cores CPU time is inflated as well; the minimum is the best estimate for the code.
    """
    workload = scale_tables(create_tables(JOBS, "t"), None, TRACKS)(LOAD)
    simulations = []
    for name, config in CONFIGS.items():
        on_progress(f"{events} events: {name}")
        seconds = [_time_action(partial(simulate_workload, workload, config, events)) for _ in range(rounds)]
        figures = {"seconds": round(median(seconds), 3), "least_s": round(min(seconds), 3)}
        simulations.append({"way": name, "events": events, **figures})
    decisions = []
    for policy in POLICIES:
        on_progress(f"decisions among {tables} tables: {policy}")
        timings = {**_time_decisions(policy, tables), "new_round_ms": _time_new_round(policy, tables, rounds)}
        decisions.append({"policy": policy, "tables": tables, **timings})
    return {"simulations": simulations, "decisions": decisions}


def build_dispatcher(policy: str, tables: int) -> tuple[Dispatcher, list[Job]]:
    """A dispatcher of various tables: every other one has pending data, the rest expects data soon."""
    random = Random(1)
    jobs = build_jobs([_draw_profile(i, random) for i in range(tables)], PriorityInheritance.NONE)
    for job in jobs[1::2]:
        job.expected = random.uniform(1.0, job.profile.period)
    mill = Dispatcher(jobs, POLICIES[policy](), PLACEMENTS["proportional"], TRACKS, DispatchLimits(3.0, PATIENCE))
    for i, job in enumerate(jobs[::2]):
        job.add_batch((i / tables, i / tables))
        mill.mark_ready(job, i / tables)
    return mill, jobs


def build_dispatcher_before_round(policy: str, tables: int) -> Dispatcher:
    """A dispatcher with one track on which all tables have used their share of a round, so that a new round is due."""
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


def _time_new_round(policy: str, tables: int, rounds: int) -> float | None:
    if not isinstance(POLICIES[policy](), RoundPolicy):
        return None
    seconds = [
        _time_action(partial(build_dispatcher_before_round(policy, tables).dispatch_jobs, 1.0)) for _ in range(rounds)
    ]
    return round(1000 * median(seconds), 4)


def _draw_profile(number: int, random: Random) -> JobProfile:
    period = random.choice((60.0, 300.0, 3600.0, 86400.0))
    return JobProfile(
        f"t{number}", period, UpdateCost(1.0, random.uniform(0.001, 0.1)), random.choice((1.0, 10.0, 100.0))
    )


def _time_decisions(policy: str, tables: int) -> dict[str, float]:
    mill, _ = build_dispatcher(policy, tables)
    running = mill.dispatch_jobs(1.0)
    milliseconds = []
    for number in range(DECISIONS):
        job, _, batches = running.pop(0)
        now = 1.0 + number
        job.load_batches(batches, now)
        job.add_batch((now, now))
        began = time.process_time()
        mill.mark_finished(job, now, batches, 1.0)
        started = mill.dispatch_jobs(now)
        milliseconds.append(1000 * (time.process_time() - began))
        running += started
    return {"median_ms": round(median(milliseconds), 4), "slowest_ms": round(max(milliseconds), 4)}


def _time_action(action: Callable[[], object]) -> float:
    began = time.process_time()
    action()
    return time.process_time() - began
