"""GreedyDual-Size-Frequency: uses times cost per byte, on top of a level that rises with each eviction.

What is used gets the level of that moment, so what has not been used for long sinks below newcomers.
"""

from __future__ import annotations

import numpy as np

from tidemill.retention.eviction.history import History
from tidemill.retention.eviction.store import Figures, Store, figures, in_order


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
