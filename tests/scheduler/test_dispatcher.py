"""A policy with a placement: which jobs start on which track, changes while jobs run, and job states."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.scheduler.jobs import JobState, add_batches, dispatcher, job, list_states, profile

from tidemill.errors import ConfigError, InfeasibleSchedule
from tidemill.scheduler.dispatcher import Dispatcher
from tidemill.scheduler.job import Job, JobProfile, UpdateCost
from tidemill.scheduler.policies.basic import FirstCome, MaxBenefit
from tidemill.scheduler.policies.quantum import QuantumPriority
from tidemill.scheduler.policies.rate import RateBased
from tidemill.scheduler.tracks.partitioned import PartitionedPlacement
from tidemill.scheduler.tracks.proportional import ProportionalPlacement

AGGRESSIVE = ProportionalPlacement()
POLITE = ProportionalPlacement(aggressive=False)


def start_jobs(dispatch: Dispatcher, now: float = 0.0) -> dict[str, int]:
    return {table_job.name: track for table_job, track, _ in dispatch.dispatch_jobs(now)}


def mark_due(dispatch: Dispatcher, *jobs: Job, now: float = 0.0) -> None:
    for table_job in jobs:
        if not table_job.batches:
            add_batches(table_job, (now, now + 1))
        dispatch.mark_ready(table_job, now)


def finish(dispatch: Dispatcher, table_job: Job, now: float, batch_count: int = 1, cost: float = 1.0) -> None:
    table_job.load_batches(batch_count, now)
    dispatch.mark_finished(table_job, now, batch_count, cost)


def test_one_queue_fills_all_tracks_in_order() -> None:
    jobs = [job(str(i)) for i in range(5)]
    dispatch = dispatcher(jobs, FirstCome(), tracks=3)
    mark_due(dispatch, *jobs)
    assert start_jobs(dispatch) == {"0": 0, "1": 1, "2": 2}
    assert start_jobs(dispatch) == {}
    finish(dispatch, jobs[1], 1)
    assert start_jobs(dispatch, 1) == {"3": 1}


def test_a_job_whose_data_arrived_during_its_run_is_due_again() -> None:
    only = job("only")
    dispatch = dispatcher([only], FirstCome(), tracks=2)
    mark_due(dispatch, only)
    assert start_jobs(dispatch) == {"only": 0}
    dispatch.mark_ready(add_batches(only, (1, 2)), 1)
    assert start_jobs(dispatch, 1) == {}
    finish(dispatch, only, 2)
    assert start_jobs(dispatch, 2) == {"only": 0}


def test_a_failed_run_is_due_again_with_its_batches() -> None:
    only = job("only")
    dispatch = dispatcher([only], FirstCome())
    mark_due(dispatch, only)
    start_jobs(dispatch)
    dispatch.mark_finished(only, 1, 0, 1.0)
    assert [(table_job.name, batch_count) for table_job, _, batch_count in dispatch.dispatch_jobs(1)] == [("only", 1)]


def test_the_catch_up_limit_splits_pending_batches() -> None:
    for periods, batch_count in [(None, 5), (3.0, 3), (2.5, 2), (1.0, 1), (0.5, 1), (5.0, 5)]:
        late = Job(JobProfile("late", 10.0, UpdateCost(1, 0)), 1.0)
        add_batches(late, *((10 * i, 10 * i) for i in range(1, 6)))
        dispatch = dispatcher([late], FirstCome(), catch_up_periods=periods)
        dispatch.mark_ready(late, 50)
        assert [count for _, _, count in dispatch.dispatch_jobs(50)] == [batch_count]


def test_the_batch_limit_splits_pending_batches() -> None:
    for batch_limit, periods, batch_count in [(None, None, 5), (2, None, 2), (9, None, 5), (2, 1.0, 1), (2, 5.0, 2)]:
        late = Job(JobProfile("late", 10.0, UpdateCost(1, 0)), 1.0)
        add_batches(late, *((10 * i, 10 * i) for i in range(1, 6)))
        dispatch = dispatcher([late], FirstCome(), catch_up_periods=periods, batch_limit=batch_limit)
        dispatch.mark_ready(late, 50)
        assert [count for _, _, count in dispatch.dispatch_jobs(50)] == [batch_count]


def build_short_and_long_jobs() -> tuple[list[Job], list[Job]]:
    """On four tracks, short jobs use tracks 2 and 3, and long ones 0 and 1."""
    return [job(f"s{i:02}", 100, 10) for i in range(15)], [job(f"l{i:02}", 10_000, 1000) for i in range(15)]


def test_long_jobs_do_not_use_the_tracks_of_short_ones() -> None:
    short, long = build_short_and_long_jobs()
    dispatch = dispatcher([*short, *long], FirstCome(), 4, placement=AGGRESSIVE)
    mark_due(dispatch, *long)
    assert set(start_jobs(dispatch).values()) == {0, 1}
    mark_due(dispatch, *short)
    assert set(start_jobs(dispatch).values()) == {2, 3}


def test_short_jobs_use_idle_tracks_or_any_track_if_aggressive() -> None:
    for placement, guests in [(POLITE, 2), (AGGRESSIVE, 4)]:
        short, long = build_short_and_long_jobs()
        dispatch = dispatcher([*short, *long], MaxBenefit(), 4, placement=placement)
        mark_due(dispatch, *short, *long)
        assert sum(name.startswith("s") for name in start_jobs(dispatch)) == guests
    short, long = build_short_and_long_jobs()
    dispatch = dispatcher([*short, *long], MaxBenefit(), 4, placement=POLITE)
    mark_due(dispatch, *short)
    assert len(start_jobs(dispatch)) == 4


def test_only_a_promoted_job_leaves_its_home_track() -> None:
    """The example of section 3.2.4."""
    four = [job("1", 4, 1), job("2", 4, 1), job("3", 8, 2), job("4", 10, 1.25)]
    dispatch = dispatcher(four, FirstCome(), 2, placement=PartitionedPlacement())
    mark_due(dispatch, four[2], four[3])
    assert start_jobs(dispatch) == {"3": 1, "4": 0}
    dispatch = dispatcher(four, FirstCome(), 2, placement=PartitionedPlacement())
    mark_due(dispatch, four[0], four[1])
    assert start_jobs(dispatch) == {"1": 0}


def test_backfills_have_a_separate_track() -> None:
    live = [job(str(i)) for i in range(3)]
    history = [Job(JobProfile(f"h{i}", 10.0, UpdateCost(1000, 0), priority=1e9, backfill=True), 1e9) for i in range(2)]
    dispatch = dispatcher([*live, *history], MaxBenefit(), tracks=2)
    mark_due(dispatch, *history)
    assert start_jobs(dispatch) == {"h0": -1}
    mark_due(dispatch, *live)
    assert set(start_jobs(dispatch).values()) == {0, 1}
    dispatch.change_setup(0, tracks=3, backfill_tracks=2)
    assert start_jobs(dispatch) == {"2": 2, "h1": -2}  # the running backfill blocks no other job


def test_job_states_under_a_quantum_policy() -> None:
    a, b = job("a", cost=5), job("b", cost=5)
    dispatch = dispatcher([a, b], QuantumPriority(basic=0.1, level=lambda j: 35))
    assert list_states(dispatch, 0)[a.name] is JobState.INACTIVE
    add_batches(a, (0, 1), (0, 2))
    mark_due(dispatch, a, b)
    assert [list_states(dispatch, 0)[j.name] for j in (a, b)] == [JobState.ACTIVE, JobState.ACTIVE]
    assert start_jobs(dispatch) == {"a": 0}
    assert list_states(dispatch, 0)[a.name] is JobState.RUNNING
    finish(dispatch, a, 5, cost=5)
    assert list_states(dispatch, 5)[a.name] is JobState.WAITING  # its quantum is used up
    assert start_jobs(dispatch, 5) == {"b": 0}
    finish(dispatch, b, 10, cost=5)
    assert list_states(dispatch, 10)[b.name] is JobState.INACTIVE
    assert start_jobs(dispatch, 10) == {"a": 0}  # a new round


def test_job_states_under_a_round_policy() -> None:
    a, b = job("a"), job("b")
    dispatch = dispatcher([a, b], RateBased())
    mark_due(dispatch, a, b)
    assert list_states(dispatch, 0)[a.name] is JobState.WAITING  # until a round begins
    start_jobs(dispatch)
    assert [list_states(dispatch, 0)[j.name] for j in (a, b)] == [JobState.RUNNING, JobState.ACTIVE]
    add_batches(a, (1, 2))
    finish(dispatch, a, 1)
    assert list_states(dispatch, 1)[a.name] is JobState.WAITING
    mark_due(dispatch, b)
    assert list_states(dispatch, 1)[b.name] is JobState.ACTIVE


def test_another_policy_takes_over_waiting_jobs() -> None:
    late, important = add_batches(job("late"), (0, 1)), add_batches(job("important", priority=100), (1, 2))
    dispatch = dispatcher([late, important], FirstCome())
    mark_due(dispatch, late, important)
    dispatch.change_setup(2, order=MaxBenefit())
    assert start_jobs(dispatch, 2) == {"important": 0}
    finish(dispatch, important, 3)
    assert start_jobs(dispatch, 3) == {"late": 0}


def test_tracks_are_added_and_removed_while_jobs_run() -> None:
    jobs = [job(str(i)) for i in range(6)]
    dispatch = dispatcher(jobs, FirstCome(), tracks=2)
    mark_due(dispatch, *jobs)
    start_jobs(dispatch)
    dispatch.change_setup(0, tracks=4)
    assert start_jobs(dispatch) == {"2": 2, "3": 3}
    dispatch.change_setup(0, tracks=1)
    finish(dispatch, jobs[3], 1)
    finish(dispatch, jobs[1], 1)
    assert start_jobs(dispatch, 1) == {}
    finish(dispatch, jobs[0], 2)
    assert start_jobs(dispatch, 2) == {"4": 0}


def test_jobs_are_added_and_removed_and_placed_again() -> None:
    short, long = build_short_and_long_jobs()
    dispatch = dispatcher(long, FirstCome(), 4, placement=AGGRESSIVE)
    mark_due(dispatch, *long)
    assert set(start_jobs(dispatch).values()) == {0, 1, 2, 3}
    dispatch.change_setup(0, jobs=[*short, *long[:5]])
    mark_due(dispatch, *short)
    assert start_jobs(dispatch) == {}
    for table_job in long[:4]:
        finish(dispatch, table_job, 1000)
    assert set(start_jobs(dispatch, 1000)) >= {"s00", "s01", "s02"}  # the long jobs now have one track
    assert list_states(dispatch, 1000).keys() == {table_job.name for table_job in [*short, *long[:5]]}


def test_a_job_that_is_removed_while_it_runs_is_ignored_at_its_end() -> None:
    stays, goes = job("stays"), job("goes")
    dispatch = dispatcher([stays, goes], QuantumPriority(), tracks=1)
    mark_due(dispatch, goes)
    assert start_jobs(dispatch) == {"goes": 0}
    dispatch.change_setup(0, jobs=[stays])
    mark_due(dispatch, stays)
    assert start_jobs(dispatch) == {}
    add_batches(goes, (1, 5))
    finish(dispatch, goes, 2)
    assert start_jobs(dispatch, 2) == {"stays": 0}
    assert list_states(dispatch, 2) == {"stays": JobState.RUNNING}


def test_changed_costs_place_a_job_again() -> None:
    short, long = job("short", 10, 1), job("long", 10, 1)
    dispatch = dispatcher([short, long], FirstCome(), 2, placement=AGGRESSIVE)
    mark_due(dispatch, long)
    assert start_jobs(dispatch) == {"long": 1}
    finish(dispatch, long, 1)
    assert dispatch.update_profiles([JobProfile("long", 1000.0, UpdateCost(100, 0))], 1)  # its placement may change
    dispatch.change_setup(1)
    mark_due(dispatch, long, now=1)
    assert start_jobs(dispatch, 1) == {"long": 0}


def test_small_cost_changes_reorder_jobs_without_placing_them_again() -> None:
    one, other = add_batches(job("one", 10, 1.0), (0, 1)), add_batches(job("other", 10, 1.1), (0, 1))
    dispatch = dispatcher([one, other], MaxBenefit())
    mark_due(dispatch, one, other)
    for seconds in (1.1, 1.2):
        assert not dispatch.update_profiles([profile("one", 10, seconds)], 0)
    assert dispatch.update_profiles([profile("one", 10, 1.3)], 0)  # the sum of the changes since the placement is large
    assert start_jobs(dispatch) == {"other": 0}


def test_an_unimportant_job_starves_without_patience() -> None:
    for patience, expected in [(None, set[str]()), (2.0, {"unimportant"})]:
        unimportant, important = job("unimportant", priority=0.001), job("important", priority=1000)
        dispatch = dispatcher([unimportant, important], MaxBenefit(), patience=patience)
        mark_due(dispatch, unimportant, important)
        subjects: set[str] = set()
        for now in range(30):
            for table_job, _, _ in dispatch.dispatch_jobs(now):
                subjects.add(table_job.name)
                add_batches(important, (now, now + 2))
                finish(dispatch, table_job, now + 1)
        assert subjects - {"important"} == expected


def test_a_job_is_ready_only_once() -> None:
    several = [job(str(i)) for i in range(3)]
    dispatch = dispatcher(several, FirstCome(), tracks=6)
    for _ in range(3):
        mark_due(dispatch, *several)
    assert len(dispatch.dispatch_jobs(0)) == 3
    assert dispatch.dispatch_jobs(0) == []


@pytest.mark.parametrize("patience", [None, 1.0])
def test_a_dispatcher_without_jobs_starts_nothing(patience: float | None) -> None:
    assert dispatcher([], FirstCome(), 3, patience=patience).dispatch_jobs(0) == []


def test_a_rejected_placement_changes_nothing() -> None:
    four = [job("1", 4, 1), job("2", 4, 1), job("3", 8, 2), job("4", 10, 1.25)]
    dispatch = dispatcher(four, FirstCome(), 2, placement=PartitionedPlacement())
    mark_due(dispatch, *four)
    with pytest.raises(InfeasibleSchedule):
        dispatch.change_setup(0, tracks=1, order=MaxBenefit(), jobs=four[1:])
    with pytest.raises(ConfigError, match="expected at least one track, found 0"):
        dispatch.change_setup(0, tracks=0)
    assert start_jobs(dispatch) == {"1": 0, "3": 1}


def test_a_limited_backlog_does_not_always_run_first() -> None:
    """A job with old data that has just run waits for its next turn."""
    backlog = add_batches(job("backlog", period=1, priority=1000), *((i, i) for i in range(40)))
    unimportant = add_batches(job("unimportant", period=1, priority=0.001), (39, 39))
    dispatch = dispatcher([backlog, unimportant], MaxBenefit(), catch_up_periods=1.0, patience=2.0)
    dispatch.mark_ready(backlog, 40)
    dispatch.mark_ready(unimportant, 40)
    order: list[str] = []
    for now in range(40, 46):
        for table_job, _, batch_count in dispatch.dispatch_jobs(now):
            order.append(table_job.name)
            finish(dispatch, table_job, now + 1, batch_count)
    assert order == ["backlog", "backlog", "unimportant", "backlog", "backlog", "backlog"]


def test_jobs_of_one_workflow_use_no_more_tracks_than_its_quota() -> None:
    jobs = [Job(replace(profile(name), workflow=name[0]), 1.0) for name in ("a1", "a2", "a3", "b1", "b2")]
    dispatch = dispatcher(jobs, FirstCome(), tracks=4)
    dispatch.limit_workflows({"a": 1})
    mark_due(dispatch, *jobs)
    assert list(start_jobs(dispatch)) == ["a1", "b1", "b2"]
    assert start_jobs(dispatch) == {}
    finish(dispatch, jobs[0], 1)
    assert list(start_jobs(dispatch, 1)) == ["a2"]
    dispatch.limit_workflows({})
    assert list(start_jobs(dispatch, 1)) == ["a3"]
