"""Chain-aware: as two-sided, but a dataset is worth what it is wanted for itself."""

from __future__ import annotations

from tidemill.retention.eviction.greedy import Greedy
from tidemill.retention.eviction.history import History
from tidemill.retention.eviction.rates import reuse_rates
from tidemill.retention.eviction.store import Store


class ChainAware:
    def choose(self, history: History, store: Store, amount: float) -> list[int]:
        rates = reuse_rates(history)
        greedy = Greedy(store)
        rate, seconds, size = rates.tolist(), store.seconds.tolist(), store.bytes.tolist()

        def score(number: int) -> float:
            back = seconds[number] + greedy.missing(number, history.parents, seconds)
            return float(back * rate[number] / size[number])

        return greedy.choose((rates * store.seconds / store.bytes)[store.movable], score, amount)
