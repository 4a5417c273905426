"""Chain-aware: as two-sided, but a dataset is worth what it is wanted for itself."""

from __future__ import annotations

from tidemill.retain.eviction.greedy import Greedy
from tidemill.retain.eviction.history import History
from tidemill.retain.eviction.rates import reuse_rates
from tidemill.retain.eviction.store import Store


class ChainAware:
    def choose(self, history: History, store: Store, amount: float) -> list[int]:
        rates = reuse_rates(history)
        greedy = Greedy(store)
        rate, seconds, size = rates.tolist(), store.seconds.tolist(), store.bytes.tolist()

        def score(number: int) -> float:
            back = seconds[number] + greedy.missing(number, history.parents, seconds)
            return float(back * rate[number] / size[number])

        return greedy.choose((rates * store.seconds / store.bytes)[store.movable], score, amount)
