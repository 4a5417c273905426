"""Guarantees of every eviction algorithm, and the order of each."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.retention.eviction.random_stores import random_stores

from tidemill.errors import EvictionFailed
from tidemill.retention.eviction import ALGORITHMS
from tidemill.retention.eviction.history import ProducedDataset, SubmissionHistory
from tidemill.retention.eviction.store import DatasetStore, EvictionAlgorithm, to_figures
from tidemill.retention.eviction.two_sided import (
    ClairvoyantEviction,
    TwoSidedEviction,
    choose_cheapest,
    estimate_reuse_rates,
)

StoredHistory = tuple[SubmissionHistory, DatasetStore]


def build_algorithms() -> dict[str, EvictionAlgorithm]:
    return {name: make() for name, make in ALGORITHMS.items()} | {"clairvoyant": ClairvoyantEviction({"d0": [9]})}


@pytest.mark.parametrize("name", build_algorithms())
@settings(max_examples=40)
@given(case=random_stores(), percent=st.integers(0, 100))
def test_enough_evictable_datasets_are_chosen_or_none(name: str, case: StoredHistory, percent: int) -> None:
    history, store = case
    evictable_bytes = int(store.bytes[store.evictable].sum())
    amount = evictable_bytes * percent // 100
    numbers = build_algorithms()[name].choose_datasets(history, store, amount)
    assert len(numbers) == len(set(numbers))
    assert set(numbers) <= set(store.evictable.tolist())
    assert store.bytes[numbers].sum() >= amount
    assert bool(numbers) == (amount > 0)
    with pytest.raises(EvictionFailed, match="raise the budget"):
        build_algorithms()[name].choose_datasets(history, store, evictable_bytes + 1)


# -- the order -------------------------------------------------------------------------------------------------


def build_case(*datasets: ProducedDataset, stored: str, submissions: int = 1) -> StoredHistory:
    """All datasets in one submission; those named in `stored` are stored and evictable."""
    history = SubmissionHistory()
    for _ in range(submissions):
        history.record_submission("s", datasets)
    is_stored = np.array([i in stored.split() for i in history.identities])
    return history, DatasetStore(
        is_stored, np.flatnonzero(is_stored), to_figures(history.seconds), to_figures(history.bytes)
    )


def choose(name: str, case: StoredHistory, amount: float) -> list[str]:
    history, store = case
    return [history.identities[n] for n in build_algorithms()[name].choose_datasets(history, store, amount)]


def test_lru_evicts_the_least_recently_and_lfu_the_least_frequently_used() -> None:
    case = build_case(*(ProducedDataset(i, (), "k", 1.0, 1) for i in "abc"), stored="a b c")
    history, _ = case
    for name in "cab":
        history.now += 1
        history.record_use(history.numbers[name])
    history.record_use(history.numbers["c"])
    history.used_at[history.numbers["c"]] = 2
    assert choose("lru", case, 1) == ["c"]
    assert choose("lfu", case, 2) == ["a", "b"]


def test_gdsf_considers_frequency_cost_size_and_age() -> None:
    costly, bulky = ProducedDataset("costly", (), "k", 9.0, 1), ProducedDataset("bulky", (), "k", 9.0, 9)
    assert choose("gdsf", _use_all(build_case(costly, bulky, stored="costly bulky")), 1) == ["bulky"]
    history, store = _use_all(
        build_case(costly, bulky, ProducedDataset("new", (), "k", 1.0, 1), stored="costly bulky new")
    )
    algorithm = ALGORITHMS["gdsf"]()
    store = replace(store, evictable=np.array([0]))
    assert algorithm.choose_datasets(history, store, 1) == [0]  # the inflation level is now that of a costly dataset
    history.now += 1
    history.record_use(2)
    assert algorithm.choose_datasets(history, replace(store, evictable=np.array([1, 2])), 1) == [1]


def _use_all(case: StoredHistory) -> StoredHistory:
    for number in range(len(case[0])):
        case[0].record_use(number)
    return case


def test_the_random_algorithm_is_reproducible() -> None:
    case = build_case(
        *(ProducedDataset(f"d{n}", (), "k", 1.0, 1) for n in range(50)), stored=" ".join(f"d{n}" for n in range(50))
    )
    assert choose("random", case, 5) == choose("random", case, 5) != [f"d{n}" for n in range(5)]


DIAMOND = (
    ProducedDataset("top", (), "k", 100.0, 1),
    ProducedDataset("left", ("top",), "k", 1.0, 1),
    ProducedDataset("right", ("top",), "k", 1.0, 1),
    ProducedDataset("end", ("left", "right"), "k", 1.0, 1),
)


def test_a_missing_ancestor_counts_once_for_all_paths() -> None:
    """Recomputing `end` takes 103 seconds, not 203; another dataset that takes 150 is worth more."""
    history, store = build_case(*DIAMOND, ProducedDataset("other", (), "k", 150.0, 1), stored="end other")
    assert TwoSidedEviction().choose_datasets(history, store, 1) == [history.numbers["end"]]


def test_a_missing_child_increases_the_value_of_its_parent() -> None:
    """Two equal sources, but the child of one is missing: a demand for the child is a demand for that source."""
    datasets = (
        ProducedDataset("a", (), "k", 10.0, 1),
        ProducedDataset("b", (), "k", 10.0, 1),
        ProducedDataset("c", ("a",), "k", 10.0, 1),
    )
    case = build_case(*datasets, stored="a b")
    assert choose("two-sided", case, 1) == ["b"]


# -- compared with a plain reference------------------------------------------------------------------------------


def find_reachable(start: int, links: list[tuple[int, ...]] | list[list[int]], missing: set[int]) -> set[int]:
    nodes: set[int] = set()
    while True:
        neighbours = {n for node in nodes | {start} for n in links[node] if n in missing} - {start}
        if neighbours == nodes:
            return nodes
        nodes = neighbours


def choose_plainly(history: SubmissionHistory, store: DatasetStore, rates: np.ndarray, amount: float) -> list[int]:
    """Compute every score before every choice; choose a little too much, and return the best of the excess."""
    remaining, missing = set(store.evictable.tolist()), set(np.flatnonzero(~store.stored).tolist())
    candidates: list[tuple[float, int]] = []
    while remaining and sum(store.bytes[n] for _, n in candidates) < 1.15 * amount:
        score, number = min((compute_score(history, store, rates, n, missing), n) for n in remaining)
        candidates.append((score, number))
        remaining.remove(number)
        missing.add(number)
    spare = sum(store.bytes[n] for _, n in candidates) - amount
    numbers = []
    for _, number in sorted(candidates, reverse=True):
        if store.bytes[number] <= spare:
            spare -= store.bytes[number]
        else:
            numbers.append(number)
    return numbers


def compute_score(
    history: SubmissionHistory, store: DatasetStore, rates: np.ndarray, number: int, missing: set[int]
) -> float:
    above, below = find_reachable(number, history.parents, missing), find_reachable(number, history.children, missing)
    recompute_seconds = store.seconds[number] + sum(store.seconds[n] for n in above)
    rate = rates[number] + sum(rates[n] for n in below)
    return float(recompute_seconds * rate / store.bytes[number])


@given(case=random_stores(), share=st.floats(0.01, 1))
def test_updating_few_scores_chooses_like_computing_all(case: StoredHistory, share: float) -> None:
    history, store = case
    amount = share * float(store.bytes[store.evictable].sum())
    rates = estimate_reuse_rates(history)
    noise = np.random.default_rng(1).random(len(rates))  # makes scores distinct, so that the order is unique
    rates = rates * (1 + 1e-3 * noise)
    assert set(choose_cheapest(history, store, amount, rates)) == set(choose_plainly(history, store, rates, amount))
