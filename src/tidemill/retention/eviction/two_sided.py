"""Two-sided eviction: the cost of recomputing a dataset times the rate of its demand, per byte.

Both factors are unions over missing datasets: recomputing one includes its missing ancestors, and while its descendants
are missing, a demand for one of them is a demand for it.

Of several budgets the narrower ones come first: evictions for the budget of a workflow count for that of the whole
store. If a budget cannot be met, all its evictable datasets are chosen, and the shortage is a problem; the others are
met regardless.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from tidemill.retention.eviction.greedy import GreedySelection
from tidemill.retention.eviction.history import HALF_LIFE, SubmissionHistory
from tidemill.retention.eviction.recency import RecencyClass
from tidemill.retention.eviction.store import DatasetStore, Figures, Flags, to_figures


def estimate_recompute_seconds(history: SubmissionHistory, store: DatasetStore, evicted: Sequence[int]) -> list[float]:
    """Estimate the seconds to recompute each evicted dataset with its missing ancestors, after the whole eviction."""
    selection = GreedySelection(store)
    for number in evicted:
        selection.missing[number] = True
    seconds = store.seconds.tolist()
    return [seconds[n] + selection.sum_missing(n, history.parents, seconds) for n in evicted]


def sum_recompute_seconds(history: SubmissionHistory, store: DatasetStore, evicted_datasets: Iterable[int]) -> float:
    """Sum the seconds to recompute all of them: shared ancestors count once."""
    evicted, seconds = {*evicted_datasets}, store.seconds.tolist()
    needed, pending = set(evicted), list(evicted)
    while pending:
        for parent in history.parents[pending.pop()]:
            if parent not in needed and (parent in evicted or not store.stored[parent]):
                needed.add(parent)
                pending.append(parent)
    return float(sum(seconds[n] for n in needed))


PRIOR_WEIGHT = 3.0
"""Weight of the average over all kinds, in observations of one kind; and the age at which a rate is halved."""


def estimate_reuse_rates(history: SubmissionHistory) -> Figures:
    """Estimate the demands per submission, up to a common factor, from the history.

    A dataset that was demanded often and recently will be demanded again. A new one has the rate of its kind. One that
    is no longer in the latest graph of its series has the share of its kind, in the same recency class, that returned.
    """
    kind = np.array(history.kind)
    age = history.now - to_figures(history.demanded_at)
    demands = to_figures(history.demands) * 0.5 ** (age / HALF_LIFE)
    prior = _shrink_ratios(history.kinds.demands, history.kinds.births)[kind]
    rates: Figures = (demands + prior) / (PRIOR_WEIGHT + age)
    recency = np.array(history.recency.classes)
    returning = _shrink_ratios(history.kinds.returns, history.kinds.departures)[kind, recency]
    return np.where(recency == RecencyClass.LATEST, rates, rates * returning)


def _shrink_ratios(events: object, chances: object) -> Figures:
    """Return the ratio of each kind, shrunk towards that of all kinds; always positive."""
    event_counts, chance_counts = to_figures(events), to_figures(chances)
    overall = (event_counts.sum(axis=0) + 1) / (chance_counts.sum(axis=0) + 1)
    ratio: Figures = (event_counts + PRIOR_WEIGHT * overall) / (chance_counts + PRIOR_WEIGHT)
    return ratio


def choose_cheapest(history: SubmissionHistory, store: DatasetStore, amount: float, rates: Figures) -> list[int]:
    """Choose the datasets that are cheapest to lose if each is demanded at its rate."""
    greedy = GreedySelection(store)
    rate, seconds, size = rates.tolist(), store.seconds.tolist(), store.bytes.tolist()

    def score_dataset(number: int) -> float:
        recompute_seconds = seconds[number] + greedy.sum_missing(number, history.parents, seconds)
        demand_rate = rate[number] + greedy.sum_missing(number, history.children, rate)
        return float(recompute_seconds * demand_rate / size[number])

    return greedy.choose_lowest((rates * store.seconds / store.bytes)[store.evictable], score_dataset, amount)


def choose_by_hit_density(history: SubmissionHistory, store: DatasetStore, amount: float) -> list[int]:
    """Choose datasets by demand rates that are predicted from the waits of equally popular datasets of the same kind.

    A wait is counted in submissions of the series that demanded the dataset before (`series.py`), which are expected at
    their past rate. The value of a dataset is the demands that it will serve per time for which it uses space until
    then: the idea of LHD (Beckmann, Chen, Cidon: "LHD: Improving Cache Hit Rate by Maximizing Hit Density", NSDI 2018).
    Wait statistics are coarse where few waits were observed, so the score is the geometric mean with the plain rate;
    neither alone was better.
    """
    return choose_cheapest(history, store, amount, np.sqrt(estimate_reuse_rates(history) * predict_rates(history)))


def predict_rates(history: SubmissionHistory) -> Figures:
    """Predict demand rates from waits. Only inner datasets are observations: leaves are never demanded."""
    inner = np.fromiter(map(bool, history.children), np.bool_, len(history))
    waited = history.series.count_all_submissions(len(history)) - to_figures(history.waiting_since)
    kind, popularity = np.array(history.kind), np.array(history.popularity_class)
    wait_rates = history.waits.estimate_rates(kind, popularity, to_figures(history.waited_before), waited, inner)
    rates: Figures = wait_rates * history.series.estimate_rates(len(history))
    return rates


@dataclass(frozen=True, slots=True)
class SpaceRequest:
    """A request to free bytes among these datasets; `owner` names the budget."""

    amount: float
    is_candidate: Flags
    owner: str


@dataclass(slots=True)
class EvictionChoice:
    """The datasets to evict, in order, and the requests that cannot be met."""

    evicted: list[int] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def choose_evictions(
    history: SubmissionHistory, store: DatasetStore, requests: Iterable[SpaceRequest]
) -> EvictionChoice:
    """Choose datasets so that every request is met as far as possible, each in addition to those before it."""
    choice = EvictionChoice()
    for request in requests:
        remaining = request.amount - sum(float(store.bytes[n]) for n in choice.evicted if request.is_candidate[n])
        if remaining <= 0:
            continue
        candidates = _select_candidates(store, request, choice.evicted)
        choice.evicted += choose_by_hit_density(history, candidates, min(remaining, candidates.evictable_bytes))
        shortage = candidates.describe_shortage(remaining)
        if shortage is not None:
            choice.problems.append(f"{request.owner}: {shortage}")
    return choice


def _select_candidates(store: DatasetStore, request: SpaceRequest, evicted: Sequence[int]) -> DatasetStore:
    """Return the store after earlier evictions, restricted to the datasets of this request."""
    stored = store.stored.copy()
    stored[list(evicted)] = False
    movable = store.evictable[request.is_candidate[store.evictable]]
    return replace(store, stored=stored, evictable=np.setdiff1d(movable, evicted))
