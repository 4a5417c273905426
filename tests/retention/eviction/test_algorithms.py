"""What every algorithm promises, and that each does what it says."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.retention.eviction.worlds import worlds

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

World = tuple[SubmissionHistory, DatasetStore]


def algorithms() -> dict[str, EvictionAlgorithm]:
    return {name: make() for name, make in ALGORITHMS.items()} | {"clairvoyant": ClairvoyantEviction({"d0": [9]})}


@pytest.mark.parametrize("name", algorithms())
@settings(max_examples=40)
@given(world=worlds(), percent=st.integers(0, 100))
def test_enough_goes_and_nothing_that_may_not_or_nothing_at_all(name: str, world: World, percent: int) -> None:
    history, store = world
    most = int(store.bytes[store.evictable].sum())
    amount = most * percent // 100
    chosen = algorithms()[name].choose_datasets(history, store, amount)
    assert len(chosen) == len(set(chosen))
    assert set(chosen) <= set(store.evictable.tolist())
    assert store.bytes[chosen].sum() >= amount
    assert bool(chosen) == (amount > 0)
    with pytest.raises(EvictionFailed, match="raise the budget"):
        algorithms()[name].choose_datasets(history, store, most + 1)


# -- the order -------------------------------------------------------------------------------------------------


def world(*made: ProducedDataset, stored: str, submissions: int = 1) -> World:
    """All submitted at once; those whose names are in `stored` are there, and may go."""
    history = SubmissionHistory()
    for _ in range(submissions):
        history.record_submission("s", made)
    there = np.array([i in stored.split() for i in history.identities])
    return history, DatasetStore(there, np.flatnonzero(there), to_figures(history.seconds), to_figures(history.bytes))


def chosen(name: str, found: World, amount: float) -> list[str]:
    history, store = found
    return [history.identities[n] for n in algorithms()[name].choose_datasets(history, store, amount)]


def test_the_one_used_longest_ago_goes_first_and_of_the_others_the_one_used_least() -> None:
    found = world(*(ProducedDataset(i, (), "k", 1.0, 1) for i in "abc"), stored="a b c")
    history, _ = found
    for name in "cab":
        history.now += 1
        history.record_use(history.numbers[name])
    history.record_use(history.numbers["c"])
    history.used_at[history.numbers["c"]] = 2
    assert chosen("lru", found, 1) == ["c"]
    assert chosen("lfu", found, 2) == ["a", "b"]


def test_frequency_cost_and_size_count_and_what_is_old_sinks() -> None:
    costly, bulky = ProducedDataset("costly", (), "k", 9.0, 1), ProducedDataset("bulky", (), "k", 9.0, 9)
    assert chosen("gdsf", _used(world(costly, bulky, stored="costly bulky")), 1) == ["bulky"]
    history, store = _used(world(costly, bulky, ProducedDataset("new", (), "k", 1.0, 1), stored="costly bulky new"))
    algorithm = ALGORITHMS["gdsf"]()
    store = replace(store, evictable=np.array([0]))
    assert algorithm.choose_datasets(history, store, 1) == [0]  # the level is that of something costly now
    history.now += 1
    history.record_use(2)
    assert algorithm.choose_datasets(history, replace(store, evictable=np.array([1, 2])), 1) == [1]


def _used(found: World) -> World:
    for number in range(len(found[0])):
        found[0].record_use(number)
    return found


def test_chance_is_the_same_each_time_it_starts() -> None:
    found = world(
        *(ProducedDataset(f"d{n}", (), "k", 1.0, 1) for n in range(50)), stored=" ".join(f"d{n}" for n in range(50))
    )
    assert chosen("random", found, 5) == chosen("random", found, 5) != [f"d{n}" for n in range(5)]


DIAMOND = (
    ProducedDataset("top", (), "k", 100.0, 1),
    ProducedDataset("left", ("top",), "k", 1.0, 1),
    ProducedDataset("right", ("top",), "k", 1.0, 1),
    ProducedDataset("end", ("left", "right"), "k", 1.0, 1),
)


def test_what_is_missing_above_counts_once_however_many_ways_lead_there() -> None:
    """To bring back the end takes 103 seconds, not 203; another that takes 150 is worth more."""
    history, store = world(*DIAMOND, ProducedDataset("other", (), "k", 150.0, 1), stored="end other")
    assert TwoSidedEviction().choose_datasets(history, store, 1) == [history.numbers["end"]]


def test_what_is_missing_below_counts_for_what_it_is_made_from() -> None:
    """Two sources alike, but of one the child is gone: whoever wants that child wants this source."""
    made = (
        ProducedDataset("a", (), "k", 10.0, 1),
        ProducedDataset("b", (), "k", 10.0, 1),
        ProducedDataset("c", ("a",), "k", 10.0, 1),
    )
    found = world(*made, stored="a b")
    assert chosen("two-sided", found, 1) == ["b"]


# -- against a plain reference ----------------------------------------------------------------------------------


def reached(start: int, links: list[tuple[int, ...]] | list[list[int]], gone: set[int]) -> set[int]:
    found: set[int] = set()
    while True:
        more = {n for at in found | {start} for n in links[at] if n in gone} - {start}
        if more == found:
            return found
        found = more


def plainly(history: SubmissionHistory, store: DatasetStore, rates: np.ndarray, amount: float) -> list[int]:
    """Every score anew before every choice; then, of a little more than is needed, the best is given back."""
    left, gone = set(store.evictable.tolist()), set(np.flatnonzero(~store.stored).tolist())
    picked: list[tuple[float, int]] = []
    while left and sum(store.bytes[n] for _, n in picked) < 1.15 * amount:
        score, number = min((worth(history, store, rates, n, gone), n) for n in left)
        picked.append((score, number))
        left.remove(number)
        gone.add(number)
    spare = sum(store.bytes[n] for _, n in picked) - amount
    kept = []
    for _, number in sorted(picked, reverse=True):
        if store.bytes[number] <= spare:
            spare -= store.bytes[number]
        else:
            kept.append(number)
    return kept


def worth(history: SubmissionHistory, store: DatasetStore, rates: np.ndarray, number: int, gone: set[int]) -> float:
    above, below = reached(number, history.parents, gone), reached(number, history.children, gone)
    back = store.seconds[number] + sum(store.seconds[n] for n in above)
    wanted = rates[number] + sum(rates[n] for n in below)
    return float(back * wanted / store.bytes[number])


@given(found=worlds(), share=st.floats(0.01, 1))
def test_computing_few_scores_anew_chooses_as_well_as_computing_all(found: World, share: float) -> None:
    history, store = found
    amount = share * float(store.bytes[store.evictable].sum())
    rates = estimate_reuse_rates(history)
    by_chance = np.random.default_rng(1).random(len(rates))  # no two scores alike, so that the order is one
    rates = rates * (1 + 1e-3 * by_chance)
    assert set(choose_cheapest(history, store, amount, rates)) == set(plainly(history, store, rates, amount))
