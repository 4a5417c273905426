"""What it would cost to bring back what goes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tidemill.retention.eviction.greedy import Greedy
from tidemill.retention.eviction.history import History
from tidemill.retention.eviction.store import Store


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
