"""Who goes first, by cases that can be worked out by hand."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from tests.scheduler.jobs import arrived, job, names, told

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


def three() -> list[Job]:
    return [
        arrived(job("slow", period=30, cost=6), (1, 1)),
        arrived(job("often", period=5, cost=1), (4, 4)),
        arrived(job("dear", period=20, cost=2, priority=10), (5, 5)),
    ]


def run(order: SchedulingPolicy, table: Job, cost: float, now: float = 0.0, selectivity: float = 1.0) -> None:
    """Take a job, load what the order wants it to, and say so."""
    grain = order.compute_batch_limit(table, now)
    order.mark_started(table, now)
    table.load_batches(grain, now)
    order.mark_finished(table, now, grain, cost, selectivity)
    if table.batches:
        order.mark_ready(table, now)


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        (FirstCome(), ["slow", "often", "dear"]),
        (EarliestDeadline(), ["often", "dear", "slow"]),  # 9, 25, 31
        (PrioritisedDeadline(), ["dear", "often", "slow"]),
        (MaxBenefit(), ["dear", "often", "slow"]),  # 50 / 2, 4 / 1, 1 / 6
    ],
)
def test_keys(order: SchedulingPolicy, expected: list[str]) -> None:
    assert told(order, three()) == expected


def test_deadlines_count_from_the_oldest_batch() -> None:
    waiting, fresh = arrived(job("waiting"), (1, 1), (11, 11)), arrived(job("fresh"), (2, 2))
    assert told(EarliestDeadline(), [fresh, waiting]) == ["waiting", "fresh"]


def test_what_waits_for_a_job_moves_it() -> None:
    one, other = arrived(job("one"), (0, 5)), arrived(job("other"), (0, 4))
    order = MaxBenefit()
    assert told(order, [one, other]) == ["one", "other"]
    order.mark_ready(arrived(other, (1, 6)), 1)
    assert names(order) == ["other", "one"]


@pytest.mark.parametrize("name", POLICIES)
def test_saying_ready_twice_changes_nothing_and_neither_does_asking(name: str) -> None:
    order = POLICIES[name]()
    first = told(order, three())
    for each in three():
        order.mark_ready(each, 5)
    assert [names(order), names(order)] == [first, first]


def test_equals_go_by_release_and_then_by_name() -> None:
    tables = [arrived(job(name), (at, 10)) for name, at in [("c", 1), ("b", 2), ("a", 2)]]
    assert told(MaxBenefit(), tables) == ["c", "a", "b"]


def test_chance_gives_every_job_the_same_chance_whoever_came_before() -> None:
    order = RandomPolicy(Random(7))
    tables = [arrived(job(str(i)), (0, 1)) for i in range(4)]
    told(order, tables)
    firsts = Counter[str]()
    for _ in range(8000):
        chosen = next(iter(order.rank_jobs(0)))
        firsts[chosen.name] += 1
        order.mark_started(chosen, 0)
        order.mark_ready(chosen, 0)
    assert all(abs(count - 2000) < 200 for count in firsts.values())


def test_chance_does_not_prefer_newcomers() -> None:
    """Of two jobs one is put back at once each time it was chosen; each is chosen half of the time all the same."""
    order = RandomPolicy(Random(1))
    stays, comes = (arrived(job(name), (0, 1)) for name in ("stays", "comes"))
    told(order, [stays, comes])
    wins = 0
    for _ in range(4000):
        chosen = next(iter(order.rank_jobs(0)))
        wins += chosen is comes
        order.mark_started(comes, 0)
        order.mark_ready(comes, 0)
    assert abs(wins - 2000) < 150


@pytest.mark.parametrize(("of", "given"), [(0, 160), (19, 84), (20, 20), (39, 1)])
def test_quanta(of: float, given: float) -> None:
    assert compute_quantum(of, basic=1.0) == given
    assert compute_quantum(of, basic=0.5) == given / 2


def test_levels_must_be_below_40() -> None:
    with pytest.raises(ConfigError, match="expected a level below 40, found 40"):
        compute_quantum(40, basic=1.0)


@pytest.mark.parametrize(
    ("weight", "expected"), [(1, 20), (2, 18), (1024, 0), (1e9, 0), (0.5, 22), (1e-9, 39), (0, 39)]
)
def test_levels_of_weights(weight: float, expected: float) -> None:
    assert compute_level(Job(job("t").profile, weight)) == expected


def levelled(**levels: float) -> tuple[QuantumPriority, dict[str, Job]]:
    """Jobs of the levels given, with ten batches each that take one unit of time apiece."""
    tables = {name: Job(JobProfile(name, 1.0, UpdateCost(0.0, 1.0)), 1.0) for name in levels}
    for table in tables.values():
        arrived(table, *((i, i) for i in range(1, 11)))
    order = QuantumPriority(basic=0.1, level=lambda j: levels[j.name])
    told(order, list(tables.values()))
    return order, tables


def test_quantum_priority_runs_the_most_important_until_its_quantum_is_used_up() -> None:
    """(40 - 30) * 0.1 = 1 and (40 - 35) * 0.1 = 0.5 units of time."""
    order, tables = levelled(high=30, low=35)
    assert names(order) == ["high", "low"]
    assert order.compute_batch_limit(tables["high"], 0) == 1
    run(order, tables["high"], cost=1.0)
    assert names(order) == ["low"]  # a balance of exactly 0 waits
    run(order, tables["low"], cost=1.0)
    assert names(order) == []
    assert order.start_round(0)
    assert names(order) == ["high"]  # low is at -0.5 + 0.5 = 0
    run(order, tables["high"], cost=1.0)
    assert order.start_round(0)
    assert names(order) == ["high", "low"]


def test_a_large_debt_takes_as_many_rounds_as_it_takes() -> None:
    order, tables = levelled(only=35)
    run(order, tables["only"], cost=7.0)
    assert names(order) == []
    assert order.start_round(0)
    assert names(order) == ["only"]


def test_who_is_idle_does_not_hoard() -> None:
    order, tables = levelled(busy=30, idle=30)
    order.mark_started(tables["idle"], 0)
    for _ in range(6):
        run(order, tables["busy"], cost=1.0)
        order.start_round(0)
    order.mark_ready(tables["idle"], 0)
    assert order.compute_batch_limit(tables["idle"], 0) == 2  # two quanta of 1 at most


def test_a_quantum_may_last_for_several_batches() -> None:
    order, tables = levelled(high=19)  # 21 * 4 * 0.1 = 8.4
    assert order.compute_batch_limit(tables["high"], 0) == 9


def round_of(*tables: str, slice_: float = 2.0) -> tuple[RoundRobin, dict[str, Job]]:
    jobs = {name: arrived(job(name, cost=2), (0, 1), (0, 2), (0, 3)) for name in tables}
    order = RoundRobin(slice_)
    told(order, list(jobs.values()))
    return order, jobs


def test_round_robin_gives_each_a_slice_in_turn() -> None:
    order, jobs = round_of("a", "b")
    assert names(order) == ["a", "b"]
    run(order, jobs["a"], cost=2)
    assert names(order) == ["b"]
    run(order, jobs["b"], cost=2)
    assert names(order) == []
    assert order.start_round(0)
    assert names(order) == ["a", "b"]


def test_round_robin_lets_go_on_who_has_some_of_its_slice_left_behind_the_others() -> None:
    order, jobs = round_of("a", "b", slice_=3.0)
    run(order, jobs["a"], cost=2)
    arrived(jobs["a"], (1, 9))
    order.mark_ready(jobs["a"], 1)
    assert names(order) == ["b", "a"]


def test_round_robin_gives_no_second_slice_to_who_runs_empty_and_comes_again() -> None:
    order, jobs = round_of("a", "b", slice_=3.0)
    run(order, jobs["a"], cost=3)
    assert not jobs["a"].batches
    arrived(jobs["a"], (1, 9))
    order.mark_ready(jobs["a"], 1)
    assert names(order) == ["b"]


def chain() -> list[Job]:
    """a feeds b and c; c feeds d."""
    return [
        arrived(job("a", cost=2), (0, 1)),
        arrived(job("b", 10, 3, 1, "a"), (0, 1)),
        arrived(job("c", 10, 1, 1, "a"), (0, 1)),
        arrived(job("d", 10, 4, 1, "c"), (0, 1)),
    ]


def selective(order: RateBased, tables: list[Job], **selectivities: float) -> None:
    for table in tables:
        order.mark_finished(table, 0, 1, table.profile.cost(0), selectivities.get(table.name, 1.0))


def test_rates_of_paths() -> None:
    """S = s * sum of S below, C = c + s * sum of C below; what the last make does not count."""
    order, tables = RateBased(), chain()
    order.set_jobs(tables)
    selective(order, tables, a=0.5, b=9.0, c=2.0)
    assert (order.find_path("b").selectivity, order.find_path("b").cost) == (1, 3)
    assert (order.find_path("d").selectivity, order.find_path("d").cost) == (1, 4)
    assert (order.find_path("c").selectivity, order.find_path("c").cost) == (2, 1 + 2 * 4)
    assert (order.find_path("a").selectivity, order.find_path("a").cost) == (0.5 * (1 + 2), 2 + 0.5 * (3 + 9))
    assert order.find_path("a").rate == pytest.approx(1.5 / 8)


def test_rate_based_goes_by_rates() -> None:
    order, tables = RateBased(), chain()
    assert told(order, tables) == []  # the round has not begun
    assert order.start_round(0)
    assert names(order) == ["b", "d", "a", "c"]  # 1/3, 1/4, 2/10, 1/5


def test_rates_follow_what_runs_took() -> None:
    order, tables = RateBased(), chain()
    order.set_jobs(tables)
    before = order.find_path("a").rate
    order.mark_finished(tables[3], 0, 2, 80.0, 1.0)
    assert order.find_path("d").cost == 40
    assert order.find_path("a").rate < before


def test_a_round_serves_what_waited_when_it_began() -> None:
    order, tables = RateBased(), chain()
    told(order, tables)
    order.start_round(0)
    b = tables[1]
    order.mark_ready(arrived(b, (1, 2)), 1)
    assert order.compute_batch_limit(b, 1) == 1
    run(order, b, cost=3, now=2)
    assert len(b.batches) == 1
    assert "b" not in names(order)
    for table in (tables[0], tables[2], tables[3]):
        run(order, table, cost=1)
    assert names(order) == []
    assert order.start_round(3)
    assert names(order) == ["b"]
