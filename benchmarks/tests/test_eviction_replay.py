"""Histories under budgets: what must hold whatever is deleted, and how far from the best possible it is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from random import Random
from statistics import geometric_mean

import pytest
from benchmarks.eviction.histories import HISTORIES
from benchmarks.eviction.replay import Replay, compute_unlimited_seconds, find_demands, sum_intermediate_bytes
from benchmarks.eviction.submission import Submission

from tidemill.retention.eviction import ALGORITHMS, DEFAULT
from tidemill.retention.eviction.history import ProducedDataset
from tidemill.retention.eviction.two_sided import ClairvoyantEviction


@pytest.mark.parametrize("name", HISTORIES)
def test_a_history_is_the_same_for_the_same_seed_and_its_graphs_are_complete(name: str) -> None:
    one, again, other = (HISTORIES[name](Random(seed), 50) for seed in (1, 1, 2))
    assert one == again != other
    assert len(one) == 50
    for submission in one:
        seen: set[str] = set()
        for made in submission.graph:
            assert set(made.parents) <= seen
            seen.add(made.identity)


@pytest.mark.parametrize("name", HISTORIES)
def test_with_unlimited_storage_everything_is_computed_once(name: str) -> None:
    submissions = HISTORIES[name](Random(1), 50)
    once = {m.identity: m.seconds for s in submissions for m in s.graph}
    wanted = compute_unlimited_seconds(submissions)
    assert wanted <= sum(once.values()) + 1e-6
    assert wanted > 0


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("name", HISTORIES)
def test_under_a_budget_leaves_stay_and_the_budget_is_kept(name: str, algorithm: str) -> None:
    submissions = HISTORIES[name](Random(1), 40)
    budget = 0.1 * sum_intermediate_bytes(submissions)
    replay = Replay(ALGORITHMS[algorithm](), budget)
    leaves: set[str] = set()
    for submission in submissions:
        replay.run([submission])
        leaves |= submission.find_sinks()
        assert leaves <= replay.present
        held = sum(replay.history.bytes[replay.history.numbers[i]] for i in replay.present - leaves)
        assert held <= budget
    assert replay.seconds >= compute_unlimited_seconds(submissions)


def test_the_default_is_better_than_recency_and_chance_on_average() -> None:
    def mean(algorithm: str) -> float:
        return geometric_mean([_ratio(HISTORIES[name](Random(5), 120), algorithm) for name in HISTORIES])

    assert mean(DEFAULT) < 0.9 * min(mean("lru"), mean("random"))


def _ratio(submissions: list[Submission], algorithm: str) -> float:
    budget = 0.05 * sum_intermediate_bytes(submissions)
    return Replay(ALGORITHMS[algorithm](), budget).run(submissions).seconds / compute_unlimited_seconds(submissions)


# -- the best possible --------------------------------------------------------------------------------------------


def small(random: Random) -> list[Submission]:
    """A handful of submissions over few datasets, with a leaf each."""
    inner: list[ProducedDataset] = []
    for n in range(6):
        parents = tuple(sorted({random.choice(inner).identity for _ in range(random.randint(0, 2))})) if inner else ()
        inner.append(
            ProducedDataset(f"d{n}", parents, f"kind {n % 2}", float(random.randint(1, 9)), random.randint(1, 5))
        )
    return [_asking(inner, random.sample(inner, random.randint(1, 2)), number) for number in range(8)]


def _asking(inner: Sequence[ProducedDataset], wanted: Sequence[ProducedDataset], number: int) -> Submission:
    names = {m.identity for m in wanted}
    for made in reversed(inner):
        names |= set(made.parents) if made.identity in names else set()
    leaf = ProducedDataset(f"leaf {number}", tuple(m.identity for m in wanted), "leaf", 1.0, 1)
    return Submission("s", (*(m for m in inner if m.identity in names), leaf))


def best(submissions: Sequence[Submission], budget: float) -> float:
    """The least seconds over every choice of what to keep after each submission."""
    reached: dict[frozenset[str], float] = {frozenset(): 0.0}
    for submission in submissions:
        following: dict[frozenset[str], float] = {}
        for stored, seconds in reached.items():
            there, spent = _computed(submission, stored)
            for kept in _kept(submission, submissions, there, budget):
                following[kept] = min(following.get(kept, float("inf")), seconds + spent)
        reached = following
    return min(reached.values())


def _computed(submission: Submission, stored: frozenset[str]) -> tuple[frozenset[str], float]:
    made = {m.identity: m for m in submission.graph}
    needed, ahead = set[str](), list(submission.find_sinks())
    while ahead:
        at = ahead.pop()
        if at not in needed and at not in stored:
            needed.add(at)
            ahead += made[at].parents
    inner = needed - submission.find_sinks()
    return stored | inner, sum(made[i].seconds for i in needed)


def _kept(
    submission: Submission, submissions: Sequence[Submission], there: frozenset[str], budget: float
) -> Iterator[frozenset[str]]:
    size = {m.identity: m.bytes for s in submissions for m in s.graph}
    for count in range(len(there) + 1):
        for kept in combinations(sorted(there), count):
            if sum(size[i] for i in kept) <= budget:
                yield frozenset(kept)


def test_no_algorithm_beats_the_best_possible_and_the_default_comes_near_it() -> None:
    cases = [small(Random(seed)) for seed in range(25)]
    over: dict[str, list[float]] = {"clairvoyant": []} | {name: [] for name in ALGORITHMS}
    for submissions in cases:
        budget = 0.3 * sum_intermediate_bytes(submissions)
        least = best(submissions, budget)
        for name in over:
            algorithm = ClairvoyantEviction(find_demands(submissions)) if name == "clairvoyant" else ALGORITHMS[name]()
            over[name].append(Replay(algorithm, budget).run(submissions).seconds / least)
    assert all(ratio >= 1 - 1e-9 for ratios in over.values() for ratio in ratios)
    means = {name: geometric_mean(ratios) for name, ratios in over.items()}
    assert means["clairvoyant"] <= means[DEFAULT] <= means["lru"], means
