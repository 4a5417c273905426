"""Under any policy on any tracks: no job is lost, none runs twice at once, and batches are loaded in order."""

from __future__ import annotations

from dataclasses import dataclass, field
from heapq import heappop, heappush

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidemill.errors import InfeasibleSchedule
from tidemill.scheduler.dispatcher import Dispatcher, DispatchLimits
from tidemill.scheduler.hierarchy import PriorityInheritance, build_jobs, derive_periods
from tidemill.scheduler.job import Job, JobProfile, UpdateCost
from tidemill.scheduler.policies import POLICIES
from tidemill.scheduler.starvation_guard import compute_wait_bound
from tidemill.scheduler.tracks import PLACEMENTS

Arrival = tuple[int, int]
"""A table's number, and how long after the arrival before."""


@dataclass
class World:
    """A driver that checks everything it sees."""

    jobs: list[Job]
    mill: Dispatcher
    tracks: int
    came: dict[str, list[float]] = field(default_factory=dict)
    loaded: dict[str, list[float]] = field(default_factory=dict)
    running: dict[str, int] = field(default_factory=dict)
    ends: list[tuple[float, int, Job, int]] = field(default_factory=list)
    waits: dict[str, float] = field(default_factory=dict)
    since: dict[str, float] = field(default_factory=dict)

    def arrive(self, job: Job, now: float) -> None:
        self.came.setdefault(job.name, []).append(now)
        job.add_batch((now, now))
        self.ready(job, now)

    def ready(self, job: Job, now: float) -> None:
        if job.name not in self.running:
            self.since.setdefault(job.name, now)
        self.mill.mark_ready(job, now)

    def start(self, now: float, slower: float) -> None:
        for job, track, grain in self.mill.dispatch_jobs(now):
            assert job.name not in self.running
            assert track not in self.running.values()
            assert (track == -1) if job.profile.backfill else (0 <= track < self.tracks)
            assert 1 <= grain <= len(job.batches)
            self.running[job.name] = track
            waited = now - self.since.pop(job.name)
            self.waits[job.name] = max(self.waits.get(job.name, 0.0), waited)
            took = slower * job.profile.cost(job.compute_span(grain))
            heappush(self.ends, (now + took, len(self.loaded) + self.jobs.index(job), job, grain))

    def end_until(self, now: float, slower: float) -> None:
        while self.ends and self.ends[0][0] <= now:
            at, _, job, grain = heappop(self.ends)
            self.loaded.setdefault(job.name, []).extend(upto for _, upto in list(job.batches)[:grain])
            del self.running[job.name]
            before = job.fresh
            job.load_batches(grain, at)
            assert job.fresh >= before
            if job.batches:
                self.since[job.name] = at
            self.mill.mark_finished(job, at, grain, at)
            if not (self.ends and self.ends[0][0] == at):  # all that happens in an instant, then one decision
                self.start(at, slower)


def profiles(count: int) -> list[JobProfile]:
    periods = (7.0, 10.0, 100.0, 1000.0)
    costs = [UpdateCost(0.5 + 4 * (i % 3), 0.0001 * periods[i % 4]) for i in range(count)]
    return [JobProfile(f"t{i}", periods[i % 4], cost, 1.0 + i % 5, backfill=i == 6) for i, cost in enumerate(costs)]


@settings(max_examples=250, deadline=None)
@given(
    policy=st.sampled_from(sorted(POLICIES)),
    placement=st.sampled_from(sorted(PLACEMENTS)),
    tracks=st.integers(2, 5),
    arrivals=st.lists(st.tuples(st.integers(0, 6), st.integers(0, 4)), max_size=60),
    chop=st.sampled_from([None, 1.0, 2.5]),
    patience=st.sampled_from([None, 0.0, 1.0]),
    other=st.sampled_from(sorted(POLICIES)),
)
def test_nothing_is_lost_or_run_twice_and_order_is_kept(
    policy: str,
    placement: str,
    tracks: int,
    arrivals: list[Arrival],
    chop: float | None,
    patience: float | None,
    other: str,
) -> None:
    jobs = build_jobs(profiles(7), PriorityInheritance.NONE)
    try:
        mill = Dispatcher(jobs, POLICIES[policy](), PLACEMENTS[placement], tracks, DispatchLimits(chop, patience))
    except InfeasibleSchedule:
        return
    world = World(jobs, mill, tracks)
    now = 0.0
    for i, (number, later) in enumerate(arrivals):
        now += later
        world.end_until(now, 1.0)
        world.arrive(jobs[number], now)
        world.start(now, 1.0)
        if i == len(arrivals) // 2:
            mill.change_setup(now, order=POLICIES[other]())
            world.start(now, 1.0)
    world.end_until(float("inf"), 1.0)
    assert world.loaded == world.came
    assert not world.running


LOADED = [JobProfile(f"t{i}", 100.0, UpdateCost(1.0, 0.1), float(10 ** (i % 4))) for i in range(30)]


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("load", [0.95, 1.5])
def test_nobody_waits_longer_than_the_bound(policy: str, load: float) -> None:
    """At 95 % of what the tracks can do, and at half as much again."""
    slower = load * 4 / sum(p.load for p in LOADED)
    jobs = build_jobs(derive_periods(LOADED), PriorityInheritance.NONE)
    limits = DispatchLimits(catch_up_periods=1.0, patience=2.0)
    world = World(jobs, Dispatcher(jobs, POLICIES[policy](), PLACEMENTS["single"], 4, limits), 4)
    for round_ in range(25):
        for i, job in enumerate(jobs):
            now = 100.0 * round_ + 3 * i
            world.end_until(now, slower)
            world.arrive(job, now)
            world.start(now, slower)
    assert len(world.waits) == 30
    limit = compute_wait_bound(jobs[0], jobs, patience=2.0, catch_up_periods=1.0, tracks=4, slowdown=slower)
    assert max(world.waits.values()) <= limit
    if load > 1 and policy == "edf-priority":
        assert max(world.waits.values()) > 2.0 * 100  # the bound is needed


def test_without_the_guard_the_least_important_starve_above_stability() -> None:
    jobs = build_jobs(LOADED, PriorityInheritance.NONE)
    world = World(
        jobs, Dispatcher(jobs, POLICIES["edf-priority"](), PLACEMENTS["single"], 4, DispatchLimits(1.0, None)), 4
    )
    for round_ in range(25):
        for i, job in enumerate(jobs):
            now = 100.0 * round_ + 3 * i
            world.end_until(now, 3.0)
            world.arrive(job, now)
            world.start(now, 3.0)
    assert len(world.waits) < 30
