"""The algorithms that two-sided eviction is compared with: random, LRU, LFU, GreedyDual and rematerialisation.

What is used gets the level of that moment, so what has not been used for long sinks below newcomers.
"""

from __future__ import annotations

import numpy as np

from tidemill.retention.eviction.greedy import Greedy
from tidemill.retention.eviction.history import History
from tidemill.retention.eviction.store import Figures, Store, figures, in_order


class Chance:
    def __init__(self) -> None:
        self._random = np.random.default_rng(1)

    def choose(self, history: History, store: Store, amount: float) -> list[int]:
        return in_order(self._random.random(len(store.movable)), store, amount)


class LeastRecentlyUsed:
    def choose(self, history: History, store: Store, amount: float) -> list[int]:
        return in_order(figures(history.used_at)[store.movable], store, amount)


class LeastFrequentlyUsed:
    def choose(self, history: History, store: Store, amount: float) -> list[int]:
        recent = figures(history.used_at) / (history.now + 1)  # below one, so that it only breaks ties
        return in_order((figures(history.uses) + recent)[store.movable], store, amount)


class GreedyDual:
    def __init__(self) -> None:
        self._moments = [-1.0]  # of decisions, in submissions
        self._levels = [0.0]  # from each of them on

    def choose(self, history: History, store: Store, amount: float) -> list[int]:
        scores = self._scores(history, store)
        chosen = in_order(scores[store.movable], store, amount)
        if chosen:
            self._moments.append(history.now)
            self._levels.append(max(self._levels[-1], float(scores[chosen].max())))
        return chosen

    def _scores(self, history: History, store: Store) -> Figures:
        """The level is that of the last use, as it was before the decisions of that very moment."""
        at = np.searchsorted(self._moments, figures(history.used_at)) - 1
        levels: Figures = figures(self._levels)[at]
        return levels + figures(history.uses) * store.seconds / store.bytes


class Rematerialisation:
    def choose(self, history: History, store: Store, amount: float) -> list[int]:
        greedy = Greedy(store)
        stale = history.now - figures(history.used_at) + 1
        seconds, weight = store.seconds.tolist(), (store.bytes * stale).tolist()

        def score(number: int) -> float:
            around = sum(greedy.missing(number, links, seconds) for links in (history.parents, history.children))
            return float((seconds[number] + around) / weight[number])

        least = (store.seconds / (store.bytes * stale))[store.movable]
        return greedy.choose(least, score, amount)
