"""Least frequently used: what was made or read the fewest times goes first; of equals, the one used longest ago."""

from __future__ import annotations

from tidemill.retention.eviction.history import History
from tidemill.retention.eviction.store import Store, figures, in_order


class LeastFrequentlyUsed:
    def choose(self, history: History, store: Store, amount: float) -> list[int]:
        recent = figures(history.used_at) / (history.now + 1)  # below one, so that it only breaks ties
        return in_order((figures(history.uses) + recent)[store.movable], store, amount)
