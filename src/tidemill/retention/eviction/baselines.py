"""Baselines for two-sided eviction: random, LRU, LFU, GreedyDual and rematerialisation."""

from __future__ import annotations

import numpy as np

from tidemill.retention.eviction.greedy import GreedySelection
from tidemill.retention.eviction.history import SubmissionHistory
from tidemill.retention.eviction.store import DatasetStore, Figures, take_lowest, to_figures


class RandomEviction:
    """Random eviction, the baseline that every other algorithm should beat."""

    def __init__(self) -> None:
        self._random = np.random.default_rng(1)

    def choose_datasets(self, history: SubmissionHistory, store: DatasetStore, amount: float) -> list[int]:
        return take_lowest(self._random.random(len(store.evictable)), store, amount)


class LeastRecentlyUsed:
    """Evicts the dataset that was written or read the longest time ago."""

    def choose_datasets(self, history: SubmissionHistory, store: DatasetStore, amount: float) -> list[int]:
        return take_lowest(to_figures(history.used_at)[store.evictable], store, amount)


class LeastFrequentlyUsed:
    """Evicts the dataset that was written or read the fewest times; of equals, the one used the longest time ago."""

    def choose_datasets(self, history: SubmissionHistory, store: DatasetStore, amount: float) -> list[int]:
        recent = to_figures(history.used_at) / (history.now + 1)  # below one, so that it only breaks ties
        return take_lowest((to_figures(history.uses) + recent)[store.evictable], store, amount)


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
        positions = np.searchsorted(self._decided_at, to_figures(history.used_at)) - 1
        levels: Figures = to_figures(self._levels)[positions]
        return levels + to_figures(history.uses) * store.seconds / store.bytes


class Rematerialisation:
    """h-DTR (dynamic tensor rematerialisation): the cost of a dataset and its missing neighbours, per byte and age."""

    def choose_datasets(self, history: SubmissionHistory, store: DatasetStore, amount: float) -> list[int]:
        greedy = GreedySelection(store)
        age = history.now - to_figures(history.used_at) + 1
        seconds, weight = store.seconds.tolist(), (store.bytes * age).tolist()

        def score_dataset(number: int) -> float:
            around = sum(greedy.sum_missing(number, links, seconds) for links in (history.parents, history.children))
            return float((seconds[number] + around) / weight[number])

        lower_bounds = (store.seconds / (store.bytes * age))[store.evictable]
        return greedy.choose_lowest(lower_bounds, score_dataset, amount)
