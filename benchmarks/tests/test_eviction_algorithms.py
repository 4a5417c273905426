"""Guarantees of the compared eviction algorithms, and the order of each."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from benchmarks.eviction.algorithms import ALGORITHMS, ClairvoyantEviction, EvictionAlgorithm, UsageHistory
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.retention.eviction.random_stores import random_stores

from tidemill.errors import EvictionFailed
from tidemill.retention.eviction.history import ProducedDataset
from tidemill.retention.eviction.store import DatasetStore, to_figures

StoredHistory = tuple[UsageHistory, DatasetStore]


def build_algorithms() -> dict[str, EvictionAlgorithm]:
    return {name: make() for name, make in ALGORITHMS.items()} | {"clairvoyant": ClairvoyantEviction({"d0": [9]})}


@pytest.mark.parametrize("name", build_algorithms())
@settings(max_examples=40)
@given(case=random_stores(make=UsageHistory), uses=st.lists(st.integers(0, 9)), percent=st.integers(0, 100))
def test_enough_evictable_datasets_are_chosen_or_none(
    name: str, case: StoredHistory, uses: list[int], percent: int
) -> None:
    history, store = case
    for number in uses:
        history.record_use(number % len(history))
    evictable_bytes = int(store.bytes[store.evictable].sum())
    amount = evictable_bytes * percent // 100
    numbers = build_algorithms()[name].choose_datasets(history, store, amount)
    assert len(numbers) == len(set(numbers))
    assert set(numbers) <= set(store.evictable.tolist())
    assert store.bytes[numbers].sum() >= amount
    assert bool(numbers) == (amount > 0)
    with pytest.raises(EvictionFailed, match="raise the budget"):
        build_algorithms()[name].choose_datasets(history, store, evictable_bytes + 1)


def build_case(*datasets: ProducedDataset, stored: str, submissions: int = 1) -> StoredHistory:
    """All datasets in one submission; those named in `stored` are stored and evictable."""
    history = UsageHistory()
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


def test_a_missing_child_increases_the_value_of_its_parent() -> None:
    """Two equal sources, but the child of one is missing: a demand for the child is a demand for that source."""
    datasets = (
        ProducedDataset("a", (), "k", 10.0, 1),
        ProducedDataset("b", (), "k", 10.0, 1),
        ProducedDataset("c", ("a",), "k", 10.0, 1),
    )
    case = build_case(*datasets, stored="a b")
    assert choose("two-sided", case, 1) == ["b"]
