"""Histories with budgets: invariants of every eviction algorithm, and its distance from the optimum."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from random import Random
from statistics import geometric_mean

import pytest
from benchmarks.eviction.algorithms import ALGORITHMS, DEFAULT, ClairvoyantEviction
from benchmarks.eviction.histories import HISTORIES
from benchmarks.eviction.replay import Replay, compute_unlimited_seconds, find_demands, sum_intermediate_bytes
from benchmarks.eviction.submission import Submission

from tidemill.retention.eviction.history import ProducedDataset


@pytest.mark.parametrize("name", HISTORIES)
def test_a_history_is_the_same_for_the_same_seed_and_its_graphs_are_complete(name: str) -> None:
    one, again, other = (HISTORIES[name](Random(seed), 50) for seed in (1, 1, 2))
    assert one == again != other
    assert len(one) == 50
    for submission in one:
        seen: set[str] = set()
        for dataset in submission.graph:
            assert set(dataset.parents) <= seen
            seen.add(dataset.identity)


@pytest.mark.parametrize("name", HISTORIES)
def test_with_unlimited_storage_everything_is_computed_once(name: str) -> None:
    submissions = HISTORIES[name](Random(1), 50)
    once = {m.identity: m.seconds for s in submissions for m in s.graph}
    seconds = compute_unlimited_seconds(submissions)
    assert seconds <= sum(once.values()) + 1e-6
    assert seconds > 0


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("name", HISTORIES)
def test_with_a_budget_leaves_stay_and_the_budget_is_met(name: str, algorithm: str) -> None:
    submissions = HISTORIES[name](Random(1), 40)
    budget = 0.1 * sum_intermediate_bytes(submissions)
    replay = Replay(ALGORITHMS[algorithm](), budget)
    leaves: set[str] = set()
    for submission in submissions:
        replay.run([submission])
        leaves |= submission.find_sinks()
        assert leaves <= replay.present
        intermediate_bytes = sum(replay.history.bytes[replay.history.numbers[i]] for i in replay.present - leaves)
        assert intermediate_bytes <= budget
    assert replay.seconds >= compute_unlimited_seconds(submissions)


def test_the_default_is_better_than_lru_and_random_on_average() -> None:
    def mean(algorithm: str) -> float:
        return geometric_mean([_compute_ratio(HISTORIES[name](Random(5), 120), algorithm) for name in HISTORIES])

    assert mean(DEFAULT) < 0.9 * min(mean("lru"), mean("random"))


def _compute_ratio(submissions: list[Submission], algorithm: str) -> float:
    budget = 0.05 * sum_intermediate_bytes(submissions)
    return Replay(ALGORITHMS[algorithm](), budget).run(submissions).seconds / compute_unlimited_seconds(submissions)


# -- the best possible --------------------------------------------------------------------------------------------


def generate_small(random: Random) -> list[Submission]:
    """Some submissions over few datasets, each with one leaf."""
    inner: list[ProducedDataset] = []
    for n in range(6):
        parents = tuple(sorted({random.choice(inner).identity for _ in range(random.randint(0, 2))})) if inner else ()
        inner.append(
            ProducedDataset(f"d{n}", parents, f"kind {n % 2}", float(random.randint(1, 9)), random.randint(1, 5))
        )
    return [_create_submission(inner, random.sample(inner, random.randint(1, 2)), number) for number in range(8)]


def _create_submission(
    inner: Sequence[ProducedDataset], requested: Sequence[ProducedDataset], number: int
) -> Submission:
    names = {m.identity for m in requested}
    for dataset in reversed(inner):
        names |= set(dataset.parents) if dataset.identity in names else set()
    leaf = ProducedDataset(f"leaf {number}", tuple(m.identity for m in requested), "leaf", 1.0, 1)
    return Submission("s", (*(m for m in inner if m.identity in names), leaf))


def find_optimum(submissions: Sequence[Submission], budget: float) -> float:
    """The minimum of seconds over all choices of retained datasets after each submission."""
    costs: dict[frozenset[str], float] = {frozenset(): 0.0}
    for submission in submissions:
        next_costs: dict[frozenset[str], float] = {}
        for stored, seconds in costs.items():
            available, computing = _compute_missing(submission, stored)
            for retained in _list_choices(submission, submissions, available, budget):
                next_costs[retained] = min(next_costs.get(retained, float("inf")), seconds + computing)
        costs = next_costs
    return min(costs.values())


def _compute_missing(submission: Submission, stored: frozenset[str]) -> tuple[frozenset[str], float]:
    datasets = {m.identity: m for m in submission.graph}
    needed, stack = set[str](), list(submission.find_sinks())
    while stack:
        identity = stack.pop()
        if identity not in needed and identity not in stored:
            needed.add(identity)
            stack += datasets[identity].parents
    inner = needed - submission.find_sinks()
    return stored | inner, sum(datasets[i].seconds for i in needed)


def _list_choices(
    submission: Submission, submissions: Sequence[Submission], available: frozenset[str], budget: float
) -> Iterator[frozenset[str]]:
    size = {m.identity: m.bytes for s in submissions for m in s.graph}
    for count in range(len(available) + 1):
        for retained in combinations(sorted(available), count):
            if sum(size[i] for i in retained) <= budget:
                yield frozenset(retained)


def test_no_algorithm_beats_the_optimum_and_the_default_is_better_than_lru() -> None:
    cases = [generate_small(Random(seed)) for seed in range(25)]
    ratios_by_name: dict[str, list[float]] = {"clairvoyant": []} | {name: [] for name in ALGORITHMS}
    for submissions in cases:
        budget = 0.3 * sum_intermediate_bytes(submissions)
        optimum = find_optimum(submissions, budget)
        for name in ratios_by_name:
            algorithm = ClairvoyantEviction(find_demands(submissions)) if name == "clairvoyant" else ALGORITHMS[name]()
            ratios_by_name[name].append(Replay(algorithm, budget).run(submissions).seconds / optimum)
    assert all(ratio >= 1 - 1e-9 for ratios in ratios_by_name.values() for ratio in ratios)
    means = {name: geometric_mean(ratios) for name, ratios in ratios_by_name.items()}
    assert means["clairvoyant"] <= means[DEFAULT] <= means["lru"], means
