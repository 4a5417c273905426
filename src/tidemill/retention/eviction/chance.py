"""By chance: what every other algorithm should beat."""

from __future__ import annotations

import numpy as np

from tidemill.retention.eviction.history import History
from tidemill.retention.eviction.store import Store, in_order


class Chance:
    def __init__(self) -> None:
        self._random = np.random.default_rng(1)

    def choose(self, history: History, store: Store, amount: float) -> list[int]:
        return in_order(self._random.random(len(store.movable)), store, amount)
