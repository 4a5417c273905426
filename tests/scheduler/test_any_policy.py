"""Under any policy and placement, no job is lost or runs twice at once, and batches are loaded in order."""

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
"""A table's number, and the time since the previous arrival."""


@dataclass
class CheckedDispatcher:
    """Drives a dispatcher and checks its invariants."""

    jobs: list[Job]
    dispatcher: Dispatcher
    tracks: int
    arrivals: dict[str, list[float]] = field(default_factory=dict)
    loaded: dict[str, list[float]] = field(default_factory=dict)
    running: dict[str, int] = field(default_factory=dict)
    ends: list[tuple[float, int, Job, int]] = field(default_factory=list)
    waits: dict[str, float] = field(default_factory=dict)
    since: dict[str, float] = field(default_factory=dict)

    def arrive(self, job: Job, now: float) -> None:
        self.arrivals.setdefault(job.name, []).append(now)
        job.add_batch((now, now))
        self.ready(job, now)

    def ready(self, job: Job, now: float) -> None:
        if job.name not in self.running:
            self.since.setdefault(job.name, now)
        self.dispatcher.mark_ready(job, now)

    def start(self, now: float, slowdown: float) -> None:
        for job, track, batch_count in self.dispatcher.dispatch_jobs(now):
            assert job.name not in self.running
            assert track not in self.running.values()
            assert (track == -1) if job.profile.backfill else (0 <= track < self.tracks)
            assert 1 <= batch_count <= len(job.batches)
            self.running[job.name] = track
            waited = now - self.since.pop(job.name)
            self.waits[job.name] = max(self.waits.get(job.name, 0.0), waited)
            seconds = slowdown * job.profile.cost(job.compute_span(batch_count))
            heappush(self.ends, (now + seconds, len(self.loaded) + self.jobs.index(job), job, batch_count))

    def end_until(self, now: float, slowdown: float) -> None:
        while self.ends and self.ends[0][0] <= now:
            end, _, job, batch_count = heappop(self.ends)
            self.loaded.setdefault(job.name, []).extend(upto for _, upto in list(job.batches)[:batch_count])
            del self.running[job.name]
            before = job.fresh
            job.load_batches(batch_count, end)
            assert job.fresh >= before
            if job.batches:
                self.since[job.name] = end
            self.dispatcher.mark_finished(job, end, batch_count, end)
            if not (self.ends and self.ends[0][0] == end):  # simultaneous events are followed by one decision
                self.start(end, slowdown)


def profiles(count: int) -> list[JobProfile]:
    periods = (7.0, 10.0, 100.0, 1000.0)
    costs = [UpdateCost(0.5 + 4 * (i % 3) if i != 3 else 0.0, 0.0001 * periods[i % 4]) for i in range(count)]
    return [JobProfile(f"t{i}", periods[i % 4], cost, 1.0 + i % 5, backfill=i == 6) for i, cost in enumerate(costs)]


@settings(max_examples=250, deadline=None)
@given(
    policy=st.sampled_from(sorted(POLICIES)),
    placement=st.sampled_from(sorted(PLACEMENTS)),
    tracks=st.integers(2, 5),
    arrivals=st.lists(st.tuples(st.integers(0, 6), st.integers(0, 4)), max_size=60),
    catch_up_periods=st.sampled_from([None, 1.0, 2.5]),
    patience=st.sampled_from([None, 0.0, 1.0]),
    other=st.sampled_from(sorted(POLICIES)),
)
def test_no_job_is_lost_or_run_twice_and_order_is_kept(
    policy: str,
    placement: str,
    tracks: int,
    arrivals: list[Arrival],
    catch_up_periods: float | None,
    patience: float | None,
    other: str,
) -> None:
    jobs = build_jobs(profiles(7), PriorityInheritance.NONE)
    try:
        dispatcher = Dispatcher(
            jobs, POLICIES[policy](), PLACEMENTS[placement], tracks, DispatchLimits(catch_up_periods, patience)
        )
    except InfeasibleSchedule:
        return
    checked = CheckedDispatcher(jobs, dispatcher, tracks)
    now = 0.0
    for i, (number, delay) in enumerate(arrivals):
        now += delay
        checked.end_until(now, 1.0)
        checked.arrive(jobs[number], now)
        checked.start(now, 1.0)
        if i == len(arrivals) // 2:
            dispatcher.change_setup(now, order=POLICIES[other]())
            checked.start(now, 1.0)
    checked.end_until(float("inf"), 1.0)
    assert checked.loaded == checked.arrivals
    assert not checked.running


LOADED = [JobProfile(f"t{i}", 100.0, UpdateCost(1.0, 0.1), float(10 ** (i % 4))) for i in range(30)]


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("load", [0.95, 1.5])
def test_no_job_waits_longer_than_the_bound(policy: str, load: float) -> None:
    """At 95 % and at 150 % of the tracks' capacity."""
    slowdown = load * 4 / sum(p.load for p in LOADED)
    jobs = build_jobs(derive_periods(LOADED), PriorityInheritance.NONE)
    limits = DispatchLimits(catch_up_periods=1.0, patience=2.0)
    checked = CheckedDispatcher(jobs, Dispatcher(jobs, POLICIES[policy](), PLACEMENTS["single"], 4, limits), 4)
    for round_ in range(25):
        for i, job in enumerate(jobs):
            now = 100.0 * round_ + 3 * i
            checked.end_until(now, slowdown)
            checked.arrive(job, now)
            checked.start(now, slowdown)
    assert len(checked.waits) == 30
    limit = compute_wait_bound(jobs[0], jobs, patience=2.0, catch_up_periods=1.0, tracks=4, slowdown=slowdown)
    assert max(checked.waits.values()) <= limit
    if load > 1 and policy == "edf-priority":
        assert max(checked.waits.values()) > 2.0 * 100  # without the guard the wait would be longer


def test_without_the_guard_unimportant_jobs_starve_under_overload() -> None:
    jobs = build_jobs(LOADED, PriorityInheritance.NONE)
    checked = CheckedDispatcher(
        jobs, Dispatcher(jobs, POLICIES["edf-priority"](), PLACEMENTS["single"], 4, DispatchLimits(1.0, None)), 4
    )
    for round_ in range(25):
        for i, job in enumerate(jobs):
            now = 100.0 * round_ + 3 * i
            checked.end_until(now, 3.0)
            checked.arrive(job, now)
            checked.start(now, 3.0)
    assert len(checked.waits) < 30
