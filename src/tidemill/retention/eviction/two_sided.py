"""Two-sided eviction: the cost of bringing a dataset back times the rate of its demand, per byte.

A dataset that was demanded often and lately will be again. One that is new is judged by its kind: how often datasets
that such tasks made were demanded. And one that is no longer in the latest graph of its series counts as often as
others of its kind, which stood as it does, came back.

Both sides are unions over what is missing: bringing it back takes its missing ancestors too, and while its
descendants are missing, whoever wants those wants it.

The wait is counted in submissions of those who asked before (`series.py`), and they are expected as often as they came.

A dataset is worth the demands that it will meet for the time for which it holds space until then; that is the idea of
LHD (Beckmann, Chen, Cidon: "LHD: Improving Cache Hit Rate by Maximizing Hit Density", NSDI 2018). What waits tell is
coarse where few were seen, so the plain rate has as much of a say: neither was better than their geometric mean.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from tidemill.model.identity import Identity
from tidemill.retention.eviction.greedy import Greedy
from tidemill.retention.eviction.history import HALF_LIFE, History
from tidemill.retention.eviction.recency import Standing
from tidemill.retention.eviction.store import Figures, Store, figures


def seconds_back(history: History, store: Store, going: Sequence[int]) -> list[float]:
    """For each dataset that goes, the seconds to make it and what is missing on the way to it, once all are gone."""
    after = Greedy(store)
    for number in going:
        after.gone[number] = True
    seconds = store.seconds.tolist()
    return [seconds[n] + after.missing(n, history.parents, seconds) for n in going]


def seconds_for_all(history: History, store: Store, going: Iterable[int]) -> float:
    """The seconds to bring all of them back: what several of them need is made once."""
    gone, seconds = {*going}, store.seconds.tolist()
    needed, ahead = set(gone), list(gone)
    while ahead:
        for parent in history.parents[ahead.pop()]:
            if parent not in needed and (parent in gone or not store.stored[parent]):
                needed.add(parent)
                ahead.append(parent)
    return float(sum(seconds[n] for n in needed))


PRIOR = 3.0
"""How many observations what is known of all kinds is worth against those of one kind; and how fast age tells."""


def reuse_rates(history: History) -> Figures:
    """Expected demands a submission, up to a factor that is the same for all."""
    kind = np.array(history.kind)
    age = history.now - figures(history.demanded_at)
    demands = figures(history.demands) * 0.5 ** (age / HALF_LIFE)
    rates: Figures = (demands + _usual(history.kinds.demands, history.kinds.births)[kind]) / (PRIOR + age)
    standing = np.array(history.standings.of)
    returning = _usual(history.kinds.returns, history.kinds.departures)[kind, standing]
    return np.where(standing == Standing.LATEST, rates, rates * returning)


def _usual(events: object, chances: object) -> Figures:
    """The ratio of each kind, drawn towards that of all; never nothing, however little has been seen."""
    many, of = figures(events), figures(chances)
    overall = (many.sum(axis=0) + 1) / (of.sum(axis=0) + 1)
    ratio: Figures = (many + PRIOR * overall) / (of + PRIOR)
    return ratio


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


class ChainAware:
    def choose(self, history: History, store: Store, amount: float) -> list[int]:
        rates = reuse_rates(history)
        greedy = Greedy(store)
        rate, seconds, size = rates.tolist(), store.seconds.tolist(), store.bytes.tolist()

        def score(number: int) -> float:
            back = seconds[number] + greedy.missing(number, history.parents, seconds)
            return float(back * rate[number] / size[number])

        return greedy.choose((rates * store.seconds / store.bytes)[store.movable], score, amount)


class HitDensity:
    def choose(self, history: History, store: Store, amount: float) -> list[int]:
        return cheapest(history, store, amount, np.sqrt(reuse_rates(history) * foretold_rates(history)))


def foretold_rates(history: History) -> Figures:
    """Only what something was made from is learnt from: leaves are never demanded."""
    inner = np.fromiter(map(bool, history.children), np.bool_, len(history))
    waited = history.series.all_passed(len(history)) - figures(history.since)
    kind, mood, before = np.array(history.kind), np.array(history.mood), figures(history.before)
    own = history.waits.rates(kind, mood, before, waited, inner)
    rates: Figures = own * history.series.rates(len(history))
    return rates


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
