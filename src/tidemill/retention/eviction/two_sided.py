"""Two-sided: what it would cost to bring a dataset back, times how soon it or what it serves is wanted, per byte.

Both sides are unions over what is missing: bringing it back takes its missing ancestors too, and while its
descendants are missing, whoever wants those wants it.
"""

from __future__ import annotations

from tidemill.retention.eviction.greedy import Greedy
from tidemill.retention.eviction.history import History
from tidemill.retention.eviction.rates import reuse_rates
from tidemill.retention.eviction.store import Figures, Store


class TwoSided:
    def choose(self, history: History, store: Store, amount: float) -> list[int]:
        return cheapest(history, store, amount, reuse_rates(history))


def cheapest(history: History, store: Store, amount: float, rates: Figures) -> list[int]:
    """What costs least to lose if each dataset is demanded at its rate."""
    greedy = Greedy(store)
    rate, seconds, size = rates.tolist(), store.seconds.tolist(), store.bytes.tolist()

    def score(number: int) -> float:
        back = seconds[number] + greedy.missing(number, history.parents, seconds)
        wanted = rate[number] + greedy.missing(number, history.children, rate)
        return float(back * wanted / size[number])

    return greedy.choose((rates * store.seconds / store.bytes)[store.movable], score, amount)
