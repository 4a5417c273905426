"""Clairvoyant: two-sided with the demands that will really come, and when. A bound for measurements, not for use."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence

from tidemill.model.identity import Identity
from tidemill.retention.eviction.history import History
from tidemill.retention.eviction.store import Figures, Store, figures
from tidemill.retention.eviction.two_sided import cheapest


class Clairvoyant:
    """`demands` has, for each dataset, the submissions that will demand it, in order."""

    def __init__(self, demands: Mapping[Identity, Sequence[int]]) -> None:
        self._demands = demands

    def choose(self, history: History, store: Store, amount: float) -> list[int]:
        return cheapest(history, store, amount, self._rates(history))

    def _rates(self, history: History) -> Figures:
        return figures([self._rate(i, history.now) for i in history.identities])

    def _rate(self, identity: Identity, now: int) -> float:
        """The sooner a demand comes, the more it counts: space that is bound for long could have served others."""
        times = self._demands.get(identity, ())
        return sum(1 / (time - now) for time in times[bisect_right(times, now) :])
