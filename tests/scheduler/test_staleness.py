"""Staleness, by the examples of the paper on update scheduling."""

from __future__ import annotations

import pytest
from tests.scheduler.jobs import arrived, dispatcher, job

from tidemill.scheduler.job import Job, JobProfile, UpdateCost, integrate_staleness
from tidemill.scheduler.order import SchedulingPolicy
from tidemill.scheduler.policies.basic import MaxBenefit
from tidemill.scheduler.policies.lookahead import LookAhead


def test_figure_2() -> None:
    """Data up to 3 come at 4 and are loaded at 5; those of 7 and 9 are loaded together at 11."""
    table = arrived(job("t"), (4, 3))
    table.load_batches(1, now=5)
    assert (table.fresh, 5 - table.fresh) == (3, 2)
    arrived(table, (7, 7))
    assert table.staleness_gain == 4
    arrived(table, (9, 9))
    assert table.compute_weighted_staleness(11) == pytest.approx(5 * 5 / 2 + (2 + 8) / 2 * 6)
    table.load_batches(2, now=11)
    assert (table.fresh, 11 - table.fresh, len(table.batches)) == (9, 2, 0)


def test_batches_that_never_came_apart_leave_the_same_staleness() -> None:
    apart, together = arrived(job("a"), (7, 7), (9, 9)), arrived(job("b"), (9, 9))
    apart.load_batches(2, now=11)
    together.load_batches(1, now=11)
    assert apart.compute_weighted_staleness(20) == together.compute_weighted_staleness(20)


def test_only_the_own_priority_weighs() -> None:
    table = Job(job("t", priority=3.0).profile, weight=100.0)
    assert table.compute_weighted_staleness(10) == 3 * 50


def two() -> tuple[Job, Job]:
    """Released at 0 with all data until then, which is 10 and 5 more than they have; they take 3 and 2."""
    one, other = arrived(job("1", cost=3), (0, 0)), arrived(job("2", cost=2), (0, 0))
    one.fresh, other.fresh = -10, -5
    return one, other


def total(first: Job, second: Job) -> float:
    """The area of both until 5, if one runs after the other."""
    first.load_batches(1, first.profile.usual_cost)
    second.load_batches(1, 5)
    return first.compute_weighted_staleness(5) + second.compute_weighted_staleness(5)


def test_max_benefit_chooses_80_over_85() -> None:
    one, other = two()
    policy = MaxBenefit()
    assert (-policy.compute_key(one), -policy.compute_key(other)) == pytest.approx((10 / 3, 5 / 2))
    assert running(MaxBenefit(), one, other) == ["1"]
    assert total(one, other) == pytest.approx(80)
    one, other = two()
    assert total(other, one) == pytest.approx(85)


def test_the_areas_of_figure_3() -> None:
    one, other = two()
    total(one, other)
    assert (one.compute_weighted_staleness(5), other.compute_weighted_staleness(5)) == pytest.approx((42.5, 37.5))


def running(order: SchedulingPolicy, *jobs: Job) -> list[str]:
    mill = dispatcher(jobs, order)
    for each in jobs:
        if each.batches:
            mill.mark_ready(each, 0)
    return [each.name for each, _, _ in mill.dispatch_jobs(0)]


def coming(at: float) -> Job:
    """Priority 10, 3 to run, a period of 50, expected at a time."""
    return Job(job("3", period=50, cost=3, priority=10).profile, 10.0, expected=at)


def test_look_ahead_takes_what_is_done_when_a_better_job_comes() -> None:
    assert running(LookAhead(), *two(), coming(1)) == ["2"]
    assert running(MaxBenefit(), *two(), coming(1)) == ["1"]


@pytest.mark.parametrize(
    ("at", "why"),
    [
        (2.5, "the other one would be done before it comes, and the track idle"),
        (3.5, "the best one is done by then"),
    ],
)
def test_look_ahead_takes_the_best_otherwise(at: float, why: str) -> None:
    assert running(LookAhead(), *two(), coming(at)) == ["1"], why


def test_look_ahead_ignores_what_is_expected_to_be_worse() -> None:
    dull = Job(job("3", period=5, cost=3).profile, 1.0, expected=1.0)
    assert running(LookAhead(), *two(), dull) == ["1"]


def test_look_ahead_fills_the_time_with_several_jobs() -> None:
    """Neither of the short ones lasts until the better job comes; both together do."""
    long = arrived(job("long", cost=9), (0, 40))
    short = [arrived(job(f"s{i}", cost=3), (0, 12 + i)) for i in range(2)]
    better = Job(job("better", period=500, cost=1, priority=10).profile, 10.0, expected=5.0)
    assert running(LookAhead(), long, *short, better) == ["s1"]
    assert running(LookAhead(), long, short[0], better) == ["long"]


def test_look_ahead_forgets_who_has_come() -> None:
    one, other, third = *two(), coming(1)
    order = LookAhead()
    mill = dispatcher([one, other, third], order)
    mill.mark_ready(arrived(third, (0, 50)), 0)
    mill.mark_ready(one, 0)
    mill.mark_ready(other, 0)
    assert [each.name for each, _, _ in mill.dispatch_jobs(0)] == ["3"]
    third.load_batches(1, 3)
    mill.mark_finished(third, 3, 1, 3.0)
    assert third.expected == 50
    assert [each.name for each, _, _ in mill.dispatch_jobs(3)] == ["1"]


def test_staleness_comes_from_data_time_not_from_when_a_job_ran() -> None:
    late = arrived(job("late"), (10, 2))
    late.load_batches(1, now=11)
    assert (
        late.compute_weighted_staleness(12) - late.compute_weighted_staleness(11)
        == pytest.approx(integrate_staleness(11, 12, 2))
        == pytest.approx(9.5)
    )


def test_an_update_takes_what_it_takes_to_start_and_for_what_it_loads() -> None:
    table = Job(JobProfile("t", 100, UpdateCost(1, 0.1)), 1.0)
    arrived(table, (100, 100), (200, 200))
    assert table.estimated_cost == pytest.approx(21)
    assert table.profile.usual_cost == pytest.approx(11)
    assert table.profile.load == pytest.approx(0.11)
    assert table.compute_span(1) == 100
