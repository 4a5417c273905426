"""Greedy selection of the lowest scores, where each deletion can raise other scores.

Scores never decrease. So a dataset that is lowest by an outdated score and still is after its score is recomputed is
the lowest of all, and few scores have to be computed.
"""

from collections.abc import Callable, Iterator, Sequence
from heapq import heappop, heappush

import numpy as np

from tidemill.retention.eviction.store import DatasetStore, Figures

SLACK = 0.15
"""Share of surplus that is chosen at first; the most valuable datasets of it are returned."""

Score = Callable[[int], float]
Links = Sequence[Sequence[int]]


class GreedySelection:
    """One decision. `missing` marks missing datasets, including those chosen so far."""

    def __init__(self, store: DatasetStore) -> None:
        self._store = store
        self.missing = bytearray((~store.stored).tobytes())

    def choose_lowest(self, lower_bounds: Figures, score: Score, amount: float) -> list[int]:
        """Choose datasets by their current score; `lower_bounds` has a lower bound of it for each movable dataset."""
        self._store.check_amount(amount)
        chosen: list[tuple[float, int]] = []
        freed, size = 0.0, self._store.bytes
        for value, number in self._iterate_lowest(lower_bounds, score):
            if freed >= amount * (1 + SLACK):
                break
            chosen.append((value, number))
            freed += float(size[number])
            self.missing[number] = True
        return self._return_surplus(chosen, freed - amount)

    def _iterate_lowest(self, lower_bounds: Figures, score: Score) -> Iterator[tuple[float, int]]:
        """Yield movable datasets in the order of their scores. A yielded dataset counts as missing from then on."""
        order = np.argsort(lower_bounds, kind="stable")
        bounds, numbers = lower_bounds[order].tolist(), self._store.evictable[order].tolist()
        computed: list[tuple[float, int]] = []  # computed scores, outdated once another dataset is chosen
        position = 0
        while computed or position < len(numbers):
            if position < len(numbers) and (not computed or bounds[position] <= computed[0][0]):
                number, position = numbers[position], position + 1
            else:
                number = heappop(computed)[1]
            value = score(number)
            following = min(
                bounds[position] if position < len(numbers) else value, computed[0][0] if computed else value
            )
            if value <= following:
                yield value, number
            else:
                heappush(computed, (value, number))

    def _return_surplus(self, chosen: list[tuple[float, int]], surplus: float) -> list[int]:
        needed = []
        for _, number in sorted(chosen, reverse=True):
            size = float(self._store.bytes[number])
            if size <= surplus:
                surplus -= size
            else:
                needed.append(number)
        return needed[::-1]

    def sum_missing(self, start: int, links: Links, weights: Sequence[float]) -> float:
        """Sum the weights of all missing datasets that are reachable over missing ones, each counted once."""
        total, seen, pending = 0.0, {start}, [start]
        while pending:
            for number in links[pending.pop()]:
                if self.missing[number] and number not in seen:
                    seen.add(number)
                    total += weights[number]
                    pending.append(number)
        return total
