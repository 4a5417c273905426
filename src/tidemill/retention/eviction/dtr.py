"""h-DTR, from dynamic tensor rematerialisation: the cost of a dataset and its missing neighbours, per byte and age."""

from __future__ import annotations

from tidemill.retention.eviction.greedy import Greedy
from tidemill.retention.eviction.history import History
from tidemill.retention.eviction.store import Store, figures


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
