"""Eviction algorithms that are compared with the one in use: random, LRU, LFU, GreedyDual, rematerialisation, parts of
the two-sided score, and a bound that knows the future.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from tidemill.model.identity import Identity
from tidemill.retention.eviction.greedy import GreedySelection
from tidemill.retention.eviction.history import ProducedDataset, SubmissionHistory
from tidemill.retention.eviction.store import DatasetStore, Figures, to_figures
from tidemill.retention.eviction.two_sided import choose_by_hit_density, choose_cheapest, estimate_reuse_rates


class EvictionAlgorithm(Protocol):
    """Chooses datasets to delete. A choice may depend on earlier choices, but on no other state."""

    def __init__(self) -> None: ...

    def choose_datasets(self, history: SubmissionHistory, store: DatasetStore, amount: float) -> list[int]:
        """Choose evictable datasets of at least `amount` bytes; raises `EvictionFailed` if there are not enough."""


class HitDensityEviction:
    """The algorithm in use."""

    def choose_datasets(self, history: SubmissionHistory, store: DatasetStore, amount: float) -> list[int]:
        return choose_by_hit_density(history, store, amount)


class UsageHistory(SubmissionHistory):
    """A history that also counts the writes and reads of each dataset."""

    def __init__(self) -> None:
        super().__init__()
        self.uses = array("d")  # number of writes and reads
        self.used_at = array("d")

    def _add_dataset(self, dataset: ProducedDataset) -> int:
        self.uses.append(0)
        self.used_at.append(self.now)
        return super()._add_dataset(dataset)

    def record_use(self, number: int) -> None:
        """Record that a dataset was written, or read by a run."""
        self.uses[number] += 1
        self.used_at[number] = self.now


def get_last_uses(history: SubmissionHistory) -> Figures:
    assert isinstance(history, UsageHistory)
    return to_figures(history.used_at)


def get_use_counts(history: SubmissionHistory) -> Figures:
    assert isinstance(history, UsageHistory)
    return to_figures(history.uses)


def take_lowest(scores: Figures, store: DatasetStore, amount: float) -> list[int]:
    """Return the movable datasets with the lowest scores that cover an amount; `scores` has one for each of them."""
    store.check_amount(amount)
    order = store.evictable[np.argsort(scores, kind="stable")]
    count = int(np.searchsorted(np.cumsum(store.bytes[order]), amount)) + 1 if amount > 0 else 0
    return [int(n) for n in order[:count]]


class RandomEviction:
    """Random eviction, the baseline that every other algorithm should beat."""

    def __init__(self) -> None:
        self._random = np.random.default_rng(1)

    def choose_datasets(self, history: SubmissionHistory, store: DatasetStore, amount: float) -> list[int]:
        return take_lowest(self._random.random(len(store.evictable)), store, amount)


class LeastRecentlyUsed:
    """Evicts the dataset that was written or read the longest time ago."""

    def choose_datasets(self, history: SubmissionHistory, store: DatasetStore, amount: float) -> list[int]:
        return take_lowest(get_last_uses(history)[store.evictable], store, amount)


class LeastFrequentlyUsed:
    """Evicts the dataset that was written or read the fewest times; of equals, the one used the longest time ago."""

    def choose_datasets(self, history: SubmissionHistory, store: DatasetStore, amount: float) -> list[int]:
        recent = get_last_uses(history) / (history.now + 1)  # below one, so that it only breaks ties
        return take_lowest((get_use_counts(history) + recent)[store.evictable], store, amount)


class GreedyDual:
    """GreedyDual-Size-Frequency: uses times cost per byte, on top of a level that rises with each eviction.

    A used dataset gets the level at that time, so datasets that have not been used for long sink below new ones.
    """

    def __init__(self) -> None:
        self._decided_at = [-1.0]  # of decisions, in submissions
        self._levels = [0.0]  # from each of them on

    def choose_datasets(self, history: SubmissionHistory, store: DatasetStore, amount: float) -> list[int]:
        scores = self._compute_scores(history, store)
        chosen = take_lowest(scores[store.evictable], store, amount)
        if chosen:
            self._decided_at.append(history.now)
            self._levels.append(max(self._levels[-1], float(scores[chosen].max())))
        return chosen

    def _compute_scores(self, history: SubmissionHistory, store: DatasetStore) -> Figures:
        """Compute scores with the level at the last use, before the decisions of the same submission."""
        positions = np.searchsorted(self._decided_at, get_last_uses(history)) - 1
        levels: Figures = to_figures(self._levels)[positions]
        return levels + get_use_counts(history) * store.seconds / store.bytes


class Rematerialisation:
    """h-DTR (dynamic tensor rematerialisation): the cost of a dataset and its missing neighbours, per byte and age."""

    def choose_datasets(self, history: SubmissionHistory, store: DatasetStore, amount: float) -> list[int]:
        greedy = GreedySelection(store)
        age = history.now - get_last_uses(history) + 1
        seconds, weight = store.seconds.tolist(), (store.bytes * age).tolist()

        def score_dataset(number: int) -> float:
            around = sum(greedy.sum_missing(number, links, seconds) for links in (history.parents, history.children))
            return float((seconds[number] + around) / weight[number])

        lower_bounds = (store.seconds / (store.bytes * age))[store.evictable]
        return greedy.choose_lowest(lower_bounds, score_dataset, amount)


class TwoSidedEviction:
    """Evicts by recompute cost times demand rate per byte."""

    def choose_datasets(self, history: SubmissionHistory, store: DatasetStore, amount: float) -> list[int]:
        return choose_cheapest(history, store, amount, estimate_reuse_rates(history))


class ChainAwareEviction:
    """Two-sided, but counts only the demands for the dataset itself."""

    def choose_datasets(self, history: SubmissionHistory, store: DatasetStore, amount: float) -> list[int]:
        rates = estimate_reuse_rates(history)
        greedy = GreedySelection(store)
        rate, seconds, size = rates.tolist(), store.seconds.tolist(), store.bytes.tolist()

        def score_dataset(number: int) -> float:
            recompute_seconds = seconds[number] + greedy.sum_missing(number, history.parents, seconds)
            return float(recompute_seconds * rate[number] / size[number])

        return greedy.choose_lowest((rates * store.seconds / store.bytes)[store.evictable], score_dataset, amount)


class ClairvoyantEviction:
    """Two-sided with the actual future demands: a bound for measurements, not for use.

    `demands` has, for each dataset, the submissions that will demand it, in order.
    """

    def __init__(self, demands: Mapping[Identity, Sequence[int]]) -> None:
        self._demands = demands

    def choose_datasets(self, history: SubmissionHistory, store: DatasetStore, amount: float) -> list[int]:
        return choose_cheapest(history, store, amount, self._list_rates(history))

    def _list_rates(self, history: SubmissionHistory) -> Figures:
        return to_figures([self._compute_rate(i, history.now) for i in history.identities])

    def _compute_rate(self, identity: Identity, now: int) -> float:
        """Return the rate of a dataset's future demands: sooner ones count more, as they bind space for less time."""
        times = self._demands.get(identity, ())
        return sum(1 / (time - now) for time in times[bisect_right(times, now) :])


ALGORITHMS: dict[str, type[EvictionAlgorithm]] = {
    "hit-density": HitDensityEviction,
    "two-sided": TwoSidedEviction,
    "chain-aware": ChainAwareEviction,
    "h-dtr": Rematerialisation,
    "gdsf": GreedyDual,
    "lru": LeastRecentlyUsed,
    "lfu": LeastFrequentlyUsed,
    "random": RandomEviction,
}
DEFAULT = "hit-density"
"""The algorithm in use."""
