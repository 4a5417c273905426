"""Two-sided eviction: the cost of bringing a dataset back times the rate of its demand, per byte.

Both factors are unions over missing datasets: bringing one back includes its missing ancestors, and while its
descendants are missing, a demand for one of them is a demand for it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from tidemill.model.identity import Identity
from tidemill.retention.eviction.greedy import GreedySelection
from tidemill.retention.eviction.history import HALF_LIFE, SubmissionHistory
from tidemill.retention.eviction.recency import RecencyClass
from tidemill.retention.eviction.store import DatasetStore, Figures, to_figures


def estimate_recompute_seconds(history: SubmissionHistory, store: DatasetStore, going: Sequence[int]) -> list[float]:
    """For each dataset that goes, the seconds to make it and what is missing on the way to it, once all are gone."""
    after = GreedySelection(store)
    for number in going:
        after.gone[number] = True
    seconds = store.seconds.tolist()
    return [seconds[n] + after.sum_missing(n, history.parents, seconds) for n in going]


def sum_recompute_seconds(history: SubmissionHistory, store: DatasetStore, going: Iterable[int]) -> float:
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


def estimate_reuse_rates(history: SubmissionHistory) -> Figures:
    """Expected demands a submission, up to a factor that is the same for all, learnt from the history.

    A dataset that was demanded often and lately will be demanded again. A new one has the rate of its kind: of the
    datasets that such tasks made. One that is no longer in the latest graph of its series has the share of its kind,
    in the same recency class, that came back.
    """
    kind = np.array(history.kind)
    age = history.now - to_figures(history.demanded_at)
    demands = to_figures(history.demands) * 0.5 ** (age / HALF_LIFE)
    rates: Figures = (demands + _shrink_ratios(history.kinds.demands, history.kinds.births)[kind]) / (PRIOR + age)
    standing = np.array(history.standings.of)
    returning = _shrink_ratios(history.kinds.returns, history.kinds.departures)[kind, standing]
    return np.where(standing == RecencyClass.LATEST, rates, rates * returning)


def _shrink_ratios(events: object, chances: object) -> Figures:
    """The ratio of each kind, drawn towards that of all; never nothing, however little has been seen."""
    many, of = to_figures(events), to_figures(chances)
    overall = (many.sum(axis=0) + 1) / (of.sum(axis=0) + 1)
    ratio: Figures = (many + PRIOR * overall) / (of + PRIOR)
    return ratio


class TwoSidedEviction:
    """Evicts by recompute cost times demand rate per byte."""

    def choose_datasets(self, history: SubmissionHistory, store: DatasetStore, amount: float) -> list[int]:
        return choose_cheapest(history, store, amount, estimate_reuse_rates(history))


def choose_cheapest(history: SubmissionHistory, store: DatasetStore, amount: float, rates: Figures) -> list[int]:
    """What costs least to lose if each dataset is demanded at its rate."""
    greedy = GreedySelection(store)
    rate, seconds, size = rates.tolist(), store.seconds.tolist(), store.bytes.tolist()

    def score_dataset(number: int) -> float:
        back = seconds[number] + greedy.sum_missing(number, history.parents, seconds)
        wanted = rate[number] + greedy.sum_missing(number, history.children, rate)
        return float(back * wanted / size[number])

    return greedy.choose_lowest((rates * store.seconds / store.bytes)[store.movable], score_dataset, amount)


class ChainAwareEviction:
    """Two-sided, with a dataset valued by the demands for itself alone."""

    def choose_datasets(self, history: SubmissionHistory, store: DatasetStore, amount: float) -> list[int]:
        rates = estimate_reuse_rates(history)
        greedy = GreedySelection(store)
        rate, seconds, size = rates.tolist(), store.seconds.tolist(), store.bytes.tolist()

        def score_dataset(number: int) -> float:
            back = seconds[number] + greedy.sum_missing(number, history.parents, seconds)
            return float(back * rate[number] / size[number])

        return greedy.choose_lowest((rates * store.seconds / store.bytes)[store.movable], score_dataset, amount)


class HitDensityEviction:
    """Two-sided, with demand rates predicted from the waits of equally popular datasets of the same kind.

    A wait is counted in submissions of the series that asked before (`series.py`), which are expected as often as they
    came. A dataset is worth the demands that it will meet for the time for which it holds space until then: the idea of
    LHD (Beckmann, Chen, Cidon: "LHD: Improving Cache Hit Rate by Maximizing Hit Density", NSDI 2018). Waits are coarse
    where few were seen, so the score is the geometric mean with the plain rate; neither alone was better.
    """

    def choose_datasets(self, history: SubmissionHistory, store: DatasetStore, amount: float) -> list[int]:
        return choose_cheapest(history, store, amount, np.sqrt(estimate_reuse_rates(history) * predict_rates(history)))


def predict_rates(history: SubmissionHistory) -> Figures:
    """Only what something was made from is learnt from: leaves are never demanded."""
    inner = np.fromiter(map(bool, history.children), np.bool_, len(history))
    waited = history.series.count_all_submissions(len(history)) - to_figures(history.since)
    kind, mood, before = np.array(history.kind), np.array(history.mood), to_figures(history.before)
    own = history.waits.estimate_rates(kind, mood, before, waited, inner)
    rates: Figures = own * history.series.estimate_rates(len(history))
    return rates


class ClairvoyantEviction:
    """Two-sided with the demands that will really come: a bound for measurements, not for use.

    `demands` has, for each dataset, the submissions that will demand it, in order.
    """

    def __init__(self, demands: Mapping[Identity, Sequence[int]]) -> None:
        self._demands = demands

    def choose_datasets(self, history: SubmissionHistory, store: DatasetStore, amount: float) -> list[int]:
        return choose_cheapest(history, store, amount, self._list_rates(history))

    def _list_rates(self, history: SubmissionHistory) -> Figures:
        return to_figures([self._compute_rate(i, history.now) for i in history.identities])

    def _compute_rate(self, identity: Identity, now: int) -> float:
        """The sooner a demand comes, the more it counts: space that is bound for long could have served others."""
        times = self._demands.get(identity, ())
        return sum(1 / (time - now) for time in times[bisect_right(times, now) :])
