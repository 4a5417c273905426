"""Staleness, by the examples of the paper on update scheduling."""

from __future__ import annotations

import pytest
from tests.scheduler.jobs import add_batches, dispatcher, job

from tidemill.scheduler.job import Job, JobProfile, UpdateCost, integrate_staleness
from tidemill.scheduler.order import SchedulingPolicy
from tidemill.scheduler.policies.basic import MaxBenefit
from tidemill.scheduler.policies.lookahead import LookAhead


def test_the_staleness_of_figure_2() -> None:
    """Data up to 3 arrive at 4 and are loaded at 5; those of 7 and 9 are loaded together at 11."""
    table = add_batches(job("t"), (4, 3))
    table.load_batches(1, now=5)
    assert (table.fresh, 5 - table.fresh) == (3, 2)
    add_batches(table, (7, 7))
    assert table.staleness_gain == 4
    add_batches(table, (9, 9))
    assert table.compute_weighted_staleness(11) == pytest.approx(5 * 5 / 2 + (2 + 8) / 2 * 6)
    table.load_batches(2, now=11)
    assert (table.fresh, 11 - table.fresh, len(table.batches)) == (9, 2, 0)


def test_batches_loaded_in_one_run_have_the_staleness_of_one_batch() -> None:
    apart, together = add_batches(job("a"), (7, 7), (9, 9)), add_batches(job("b"), (9, 9))
    apart.load_batches(2, now=11)
    together.load_batches(1, now=11)
    assert apart.compute_weighted_staleness(20) == together.compute_weighted_staleness(20)


def test_staleness_is_weighted_by_the_priority_without_inheritance() -> None:
    table = Job(job("t", priority=3.0).profile, weight=100.0)
    assert table.compute_weighted_staleness(10) == 3 * 50


def build_two_jobs() -> tuple[Job, Job]:
    """Released at 0 with 10 and 5 time units of new data; the runs take 3 and 2."""
    one, other = add_batches(job("1", cost=3), (0, 0)), add_batches(job("2", cost=2), (0, 0))
    one.fresh, other.fresh = -10, -5
    return one, other


def sum_staleness(first: Job, second: Job) -> float:
    """The staleness of both until 5 if they run one after the other."""
    first.load_batches(1, first.profile.usual_cost)
    second.load_batches(1, 5)
    return first.compute_weighted_staleness(5) + second.compute_weighted_staleness(5)


def test_max_benefit_chooses_80_over_85() -> None:
    one, other = build_two_jobs()
    policy = MaxBenefit()
    assert (-policy.compute_key(one), -policy.compute_key(other)) == pytest.approx((10 / 3, 5 / 2))
    assert start_jobs(MaxBenefit(), one, other) == ["1"]
    assert sum_staleness(one, other) == pytest.approx(80)
    one, other = build_two_jobs()
    assert sum_staleness(other, one) == pytest.approx(85)


def test_the_areas_of_figure_3() -> None:
    one, other = build_two_jobs()
    sum_staleness(one, other)
    assert (one.compute_weighted_staleness(5), other.compute_weighted_staleness(5)) == pytest.approx((42.5, 37.5))


def start_jobs(order: SchedulingPolicy, *jobs: Job) -> list[str]:
    dispatch = dispatcher(jobs, order)
    for table_job in jobs:
        if table_job.batches:
            dispatch.mark_ready(table_job, 0)
    return [table_job.name for table_job, _, _ in dispatch.dispatch_jobs(0)]


def build_expected_job(time: float) -> Job:
    """Priority 10, a run time of 3, a period of 50, expected at a time."""
    return Job(job("3", period=50, cost=3, priority=10).profile, 10.0, expected=time)


def test_look_ahead_prefers_a_job_that_ends_before_a_better_one_arrives() -> None:
    assert start_jobs(LookAhead(), *build_two_jobs(), build_expected_job(1)) == ["2"]
    assert start_jobs(MaxBenefit(), *build_two_jobs(), build_expected_job(1)) == ["1"]


@pytest.mark.parametrize(
    ("time", "reason"),
    [
        (2.5, "the other job would end before it arrives, and the track would be idle"),
        (3.5, "the best job has ended by then"),
    ],
)
def test_look_ahead_takes_the_best_job_otherwise(time: float, reason: str) -> None:
    assert start_jobs(LookAhead(), *build_two_jobs(), build_expected_job(time)) == ["1"], reason


def test_look_ahead_ignores_worse_expected_jobs() -> None:
    unimportant = Job(job("3", period=5, cost=3).profile, 1.0, expected=1.0)
    assert start_jobs(LookAhead(), *build_two_jobs(), unimportant) == ["1"]


def test_look_ahead_fills_the_time_with_several_jobs() -> None:
    """Neither short job runs until the better job arrives; both together do."""
    long = add_batches(job("long", cost=9), (0, 40))
    short = [add_batches(job(f"s{i}", cost=3), (0, 12 + i)) for i in range(2)]
    better = Job(job("better", period=500, cost=1, priority=10).profile, 10.0, expected=5.0)
    assert start_jobs(LookAhead(), long, *short, better) == ["s1"]
    assert start_jobs(LookAhead(), long, short[0], better) == ["long"]


def test_look_ahead_updates_the_expected_time_after_an_arrival() -> None:
    one, other, third = *build_two_jobs(), build_expected_job(1)
    order = LookAhead()
    dispatch = dispatcher([one, other, third], order)
    dispatch.mark_ready(add_batches(third, (0, 50)), 0)
    dispatch.mark_ready(one, 0)
    dispatch.mark_ready(other, 0)
    assert [table_job.name for table_job, _, _ in dispatch.dispatch_jobs(0)] == ["3"]
    third.load_batches(1, 3)
    dispatch.mark_finished(third, 3, 1, 3.0)
    assert third.expected == 50
    assert [table_job.name for table_job, _, _ in dispatch.dispatch_jobs(3)] == ["1"]


def test_staleness_is_measured_from_data_time_and_not_from_run_time() -> None:
    late = add_batches(job("late"), (10, 2))
    late.load_batches(1, now=11)
    assert (
        late.compute_weighted_staleness(12) - late.compute_weighted_staleness(11)
        == pytest.approx(integrate_staleness(11, 12, 2))
        == pytest.approx(9.5)
    )


def test_the_cost_of_a_run_is_a_start_cost_and_a_rate() -> None:
    table = Job(JobProfile("t", 100, UpdateCost(1, 0.1)), 1.0)
    add_batches(table, (100, 100), (200, 200))
    assert table.estimated_cost == pytest.approx(21)
    assert table.profile.usual_cost == pytest.approx(11)
    assert table.profile.load == pytest.approx(0.11)
    assert table.compute_span(1) == 100
