"""Guarantees of the eviction algorithm, and its order, compared with a plain reference."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.retention.eviction.random_stores import random_stores

from tidemill.errors import EvictionFailed
from tidemill.retention.eviction.history import ProducedDataset, SubmissionHistory
from tidemill.retention.eviction.store import DatasetStore, to_figures
from tidemill.retention.eviction.two_sided import choose_by_hit_density, choose_cheapest, estimate_reuse_rates

StoredHistory = tuple[SubmissionHistory, DatasetStore]


@settings(max_examples=40)
@given(case=random_stores(), percent=st.integers(0, 100))
def test_enough_evictable_datasets_are_chosen_or_none(case: StoredHistory, percent: int) -> None:
    history, store = case
    evictable_bytes = int(store.bytes[store.evictable].sum())
    amount = evictable_bytes * percent // 100
    numbers = choose_by_hit_density(history, store, amount)
    assert len(numbers) == len(set(numbers))
    assert set(numbers) <= set(store.evictable.tolist())
    assert store.bytes[numbers].sum() >= amount
    assert bool(numbers) == (amount > 0)
    with pytest.raises(EvictionFailed, match="raise the budget"):
        choose_by_hit_density(history, store, evictable_bytes + 1)


def build_case(*datasets: ProducedDataset, stored: str, submissions: int = 1) -> StoredHistory:
    """All datasets in one submission; those named in `stored` are stored and evictable."""
    history = SubmissionHistory()
    for _ in range(submissions):
        history.record_submission("s", datasets)
    is_stored = np.array([i in stored.split() for i in history.identities])
    return history, DatasetStore(
        is_stored, np.flatnonzero(is_stored), to_figures(history.seconds), to_figures(history.bytes)
    )


DIAMOND = (
    ProducedDataset("top", (), "k", 100.0, 1),
    ProducedDataset("left", ("top",), "k", 1.0, 1),
    ProducedDataset("right", ("top",), "k", 1.0, 1),
    ProducedDataset("end", ("left", "right"), "k", 1.0, 1),
)


def test_a_missing_ancestor_counts_once_for_all_paths() -> None:
    """Recomputing `end` takes 103 seconds, not 203; another dataset that takes 150 is worth more."""
    history, store = build_case(*DIAMOND, ProducedDataset("other", (), "k", 150.0, 1), stored="end other")
    assert choose_cheapest(history, store, 1, estimate_reuse_rates(history)) == [history.numbers["end"]]


def test_a_missing_child_increases_the_value_of_its_parent() -> None:
    """Two equal sources, but the child of one is missing: a demand for the child is a demand for that source."""
    datasets = (
        ProducedDataset("a", (), "k", 10.0, 1),
        ProducedDataset("b", (), "k", 10.0, 1),
        ProducedDataset("c", ("a",), "k", 10.0, 1),
    )
    history, store = build_case(*datasets, stored="a b")
    assert choose_cheapest(history, store, 1, estimate_reuse_rates(history)) == [history.numbers["b"]]


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
