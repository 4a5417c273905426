"""The order of jobs under each policy, in cases that can be calculated."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from tests.scheduler.jobs import add_batches, job, list_ranking, rank_ready_jobs

from tidemill.errors import ConfigError
from tidemill.scheduler.job import Job, JobProfile, UpdateCost
from tidemill.scheduler.order import SchedulingPolicy
from tidemill.scheduler.policies import POLICIES
from tidemill.scheduler.policies.basic import (
    EarliestDeadline,
    FirstCome,
    MaxBenefit,
    PrioritisedDeadline,
    RandomPolicy,
    RoundRobin,
)
from tidemill.scheduler.policies.quantum import QuantumPriority, compute_level, compute_quantum
from tidemill.scheduler.policies.rate import RateBased


def build_three_jobs() -> list[Job]:
    return [
        add_batches(job("slow", period=30, cost=6), (1, 1)),
        add_batches(job("often", period=5, cost=1), (4, 4)),
        add_batches(job("important", period=20, cost=2, priority=10), (5, 5)),
    ]


def run(order: SchedulingPolicy, table: Job, cost: float, now: float = 0.0, selectivity: float = 1.0) -> None:
    """Start a job, load as many batches as the policy allows, and finish it."""
    batch_count = order.compute_batch_limit(table, now)
    order.mark_started(table, now)
    table.load_batches(batch_count, now)
    order.mark_finished(table, now, batch_count, cost, selectivity)
    if table.batches:
        order.mark_ready(table, now)


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        (FirstCome(), ["slow", "often", "important"]),
        (EarliestDeadline(), ["often", "important", "slow"]),  # 9, 25, 31
        (PrioritisedDeadline(), ["important", "often", "slow"]),
        (MaxBenefit(), ["important", "often", "slow"]),  # 50 / 2, 4 / 1, 1 / 6
    ],
)
def test_jobs_are_ordered_by_key(order: SchedulingPolicy, expected: list[str]) -> None:
    assert rank_ready_jobs(order, build_three_jobs()) == expected


def test_deadlines_count_from_the_oldest_batch() -> None:
    waiting, fresh = add_batches(job("waiting"), (1, 1), (11, 11)), add_batches(job("fresh"), (2, 2))
    assert rank_ready_jobs(EarliestDeadline(), [fresh, waiting]) == ["waiting", "fresh"]


def test_a_new_batch_changes_a_jobs_rank() -> None:
    one, other = add_batches(job("one"), (0, 5)), add_batches(job("other"), (0, 4))
    order = MaxBenefit()
    assert rank_ready_jobs(order, [one, other]) == ["one", "other"]
    order.mark_ready(add_batches(other, (1, 6)), 1)
    assert list_ranking(order) == ["other", "one"]


@pytest.mark.parametrize("name", POLICIES)
def test_marking_a_job_ready_twice_and_ranking_change_nothing(name: str) -> None:
    order = POLICIES[name]()
    first = rank_ready_jobs(order, build_three_jobs())
    for table_job in build_three_jobs():
        order.mark_ready(table_job, 5)
    assert [list_ranking(order), list_ranking(order)] == [first, first]


@pytest.mark.parametrize("name", POLICIES)
def test_a_job_without_a_gain_and_without_a_cost_is_ranked(name: str) -> None:
    """The measured cost may be all for the data that a run loads; then a run that loads none costs nothing."""
    free = Job(JobProfile("free", 10.0, UpdateCost(0.0, 0.1)), 1.0, fresh=5.0)
    order = POLICIES[name]()
    first = rank_ready_jobs(order, [add_batches(free, (0, 5)), *build_three_jobs()])
    order.start_round(0.0)
    assert "free" in {*first, *list_ranking(order)}


def test_ties_are_broken_by_release_and_name() -> None:
    tables = [add_batches(job(name), (arrival, 10)) for name, arrival in [("c", 1), ("b", 2), ("a", 2)]]
    assert rank_ready_jobs(MaxBenefit(), tables) == ["c", "a", "b"]


def test_the_random_policy_chooses_every_job_equally_often() -> None:
    order = RandomPolicy(Random(7))
    tables = [add_batches(job(str(i)), (0, 1)) for i in range(4)]
    rank_ready_jobs(order, tables)
    firsts = Counter[str]()
    for _ in range(8000):
        chosen = next(iter(order.rank_jobs(0)))
        firsts[chosen.name] += 1
        order.mark_started(chosen, 0)
        order.mark_ready(chosen, 0)
    assert all(abs(count - 2000) < 200 for count in firsts.values())


def test_the_random_policy_does_not_prefer_new_jobs() -> None:
    """One of two jobs is always started and marked ready again; each is still chosen half of the time."""
    order = RandomPolicy(Random(1))
    stays, comes = (add_batches(job(name), (0, 1)) for name in ("stays", "comes"))
    rank_ready_jobs(order, [stays, comes])
    wins = 0
    for _ in range(4000):
        chosen = next(iter(order.rank_jobs(0)))
        wins += chosen is comes
        order.mark_started(comes, 0)
        order.mark_ready(comes, 0)
    assert abs(wins - 2000) < 150


@pytest.mark.parametrize(("level", "quantum"), [(0, 160), (19, 84), (20, 20), (39, 1)])
def test_the_quantum_of_a_level(level: float, quantum: float) -> None:
    assert compute_quantum(level, basic=1.0) == quantum
    assert compute_quantum(level, basic=0.5) == quantum / 2


def test_levels_must_be_below_40() -> None:
    with pytest.raises(ConfigError, match="expected a level below 40, found 40"):
        compute_quantum(40, basic=1.0)


@pytest.mark.parametrize(
    ("weight", "expected"), [(1, 20), (2, 18), (1024, 0), (1e9, 0), (0.5, 22), (1e-9, 39), (0, 39)]
)
def test_the_level_of_a_weight(weight: float, expected: float) -> None:
    assert compute_level(Job(job("t").profile, weight)) == expected


def build_with_levels(**levels: float) -> tuple[QuantumPriority, dict[str, Job]]:
    """Jobs of the given levels, with ten batches each, which take one unit of time each."""
    tables = {name: Job(JobProfile(name, 1.0, UpdateCost(0.0, 1.0)), 1.0) for name in levels}
    for table in tables.values():
        add_batches(table, *((i, i) for i in range(1, 11)))
    order = QuantumPriority(basic=0.1, level=lambda j: levels[j.name])
    rank_ready_jobs(order, list(tables.values()))
    return order, tables


def test_quantum_priority_runs_the_most_important_job_for_its_quantum() -> None:
    """(40 - 30) * 0.1 = 1 and (40 - 35) * 0.1 = 0.5 units of time."""
    order, tables = build_with_levels(high=30, low=35)
    assert list_ranking(order) == ["high", "low"]
    assert order.compute_batch_limit(tables["high"], 0) == 1
    run(order, tables["high"], cost=1.0)
    assert list_ranking(order) == ["low"]  # a balance of exactly 0 waits
    run(order, tables["low"], cost=1.0)
    assert list_ranking(order) == []
    assert order.start_round(0)
    assert list_ranking(order) == ["high"]  # low is at -0.5 + 0.5 = 0
    run(order, tables["high"], cost=1.0)
    assert order.start_round(0)
    assert list_ranking(order) == ["high", "low"]


def test_a_large_debt_is_repaid_over_several_rounds() -> None:
    order, tables = build_with_levels(only=35)
    run(order, tables["only"], cost=7.0)
    assert list_ranking(order) == []
    assert order.start_round(0)
    assert list_ranking(order) == ["only"]


def test_an_idle_job_accumulates_at_most_two_quanta() -> None:
    order, tables = build_with_levels(busy=30, idle=30)
    order.mark_started(tables["idle"], 0)
    for _ in range(6):
        run(order, tables["busy"], cost=1.0)
        order.start_round(0)
    order.mark_ready(tables["idle"], 0)
    assert order.compute_batch_limit(tables["idle"], 0) == 2  # two quanta of 1 at most


def test_a_quantum_may_last_for_several_batches() -> None:
    order, tables = build_with_levels(high=19)  # 21 * 4 * 0.1 = 8.4
    assert order.compute_batch_limit(tables["high"], 0) == 9


def build_round_robin(*tables: str, slice_: float = 2.0) -> tuple[RoundRobin, dict[str, Job]]:
    jobs = {name: add_batches(job(name, cost=2), (0, 1), (0, 2), (0, 3)) for name in tables}
    order = RoundRobin(slice_)
    rank_ready_jobs(order, list(jobs.values()))
    return order, jobs


def test_round_robin_gives_each_job_a_slice_in_turn() -> None:
    order, jobs = build_round_robin("a", "b")
    assert list_ranking(order) == ["a", "b"]
    run(order, jobs["a"], cost=2)
    assert list_ranking(order) == ["b"]
    run(order, jobs["b"], cost=2)
    assert list_ranking(order) == []
    assert order.start_round(0)
    assert list_ranking(order) == ["a", "b"]


def test_a_job_with_an_unfinished_slice_is_placed_behind_the_others() -> None:
    order, jobs = build_round_robin("a", "b", slice_=3.0)
    run(order, jobs["a"], cost=2)
    add_batches(jobs["a"], (1, 9))
    order.mark_ready(jobs["a"], 1)
    assert list_ranking(order) == ["b", "a"]


def test_a_job_gets_only_one_slice_per_round() -> None:
    order, jobs = build_round_robin("a", "b", slice_=3.0)
    run(order, jobs["a"], cost=3)
    assert not jobs["a"].batches
    add_batches(jobs["a"], (1, 9))
    order.mark_ready(jobs["a"], 1)
    assert list_ranking(order) == ["b"]


def chain() -> list[Job]:
    """a feeds b and c; c feeds d."""
    return [
        add_batches(job("a", cost=2), (0, 1)),
        add_batches(job("b", 10, 3, 1, "a"), (0, 1)),
        add_batches(job("c", 10, 1, 1, "a"), (0, 1)),
        add_batches(job("d", 10, 4, 1, "c"), (0, 1)),
    ]


def set_selectivities(order: RateBased, tables: list[Job], **selectivities: float) -> None:
    for table in tables:
        order.mark_finished(table, 0, 1, table.profile.cost(0), selectivities.get(table.name, 1.0))


def test_the_rate_of_a_path() -> None:
    """S = s * sum of S below, C = c + s * sum of C below; the selectivity of the last tables does not count."""
    order, tables = RateBased(), chain()
    order.set_jobs(tables)
    set_selectivities(order, tables, a=0.5, b=9.0, c=2.0)
    assert (order.find_path("b").selectivity, order.find_path("b").cost) == (1, 3)
    assert (order.find_path("d").selectivity, order.find_path("d").cost) == (1, 4)
    assert (order.find_path("c").selectivity, order.find_path("c").cost) == (2, 1 + 2 * 4)
    assert (order.find_path("a").selectivity, order.find_path("a").cost) == (0.5 * (1 + 2), 2 + 0.5 * (3 + 9))
    assert order.find_path("a").rate == pytest.approx(1.5 / 8)


def test_rate_based_orders_jobs_by_rate() -> None:
    order, tables = RateBased(), chain()
    assert rank_ready_jobs(order, tables) == []  # the round has not begun
    assert order.start_round(0)
    assert list_ranking(order) == ["b", "d", "a", "c"]  # 1/3, 1/4, 2/10, 1/5


def test_rates_follow_the_measured_run_times() -> None:
    order, tables = RateBased(), chain()
    order.set_jobs(tables)
    before = order.find_path("a").rate
    order.mark_finished(tables[3], 0, 2, 80.0, 1.0)
    assert order.find_path("d").cost == 40
    assert order.find_path("a").rate < before


def test_a_round_serves_only_batches_from_before_its_start() -> None:
    order, tables = RateBased(), chain()
    rank_ready_jobs(order, tables)
    order.start_round(0)
    b = tables[1]
    order.mark_ready(add_batches(b, (1, 2)), 1)
    assert order.compute_batch_limit(b, 1) == 1
    run(order, b, cost=3, now=2)
    assert len(b.batches) == 1
    assert "b" not in list_ranking(order)
    for table in (tables[0], tables[2], tables[3]):
        run(order, table, cost=1)
    assert list_ranking(order) == []
    assert order.start_round(3)
    assert list_ranking(order) == ["b"]
