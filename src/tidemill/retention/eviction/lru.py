"""Least recently used: what was made or read the longest time ago goes first."""

from __future__ import annotations

from tidemill.retention.eviction.history import History
from tidemill.retention.eviction.store import Store, figures, in_order


class LeastRecentlyUsed:
    def choose(self, history: History, store: Store, amount: float) -> list[int]:
        return in_order(figures(history.used_at)[store.movable], store, amount)
