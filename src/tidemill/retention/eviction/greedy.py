"""Delete what has the lowest score, again and again, when each deletion can raise the scores of others.

Scores only ever rise. So whatever is lowest by an outdated score and still is when its score is computed anew is the
lowest of all, and few scores have to be computed at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from heapq import heappop, heappush

import numpy as np

from tidemill.retention.eviction.store import DatasetStore, Figures

SLACK = 0.15
"""So much more than is needed is chosen at first, and what is worth most is given back."""

Score = Callable[[int], float]
Links = Sequence[Sequence[int]]


class GreedySelection:
    """One decision. `gone` tells what is not there, that which was chosen so far included."""

    def __init__(self, store: DatasetStore) -> None:
        self._store = store
        self.gone = bytearray((~store.stored).tobytes())

    def choose_lowest(self, least: Figures, score: Score, amount: float) -> list[int]:
        """`least` has a lower bound on the score of each movable dataset; `score` computes it as things are."""
        self._store.check_amount(amount)
        chosen: list[tuple[float, int]] = []
        freed, size = 0.0, self._store.bytes
        for value, number in self._iterate_lowest(least, score):
            if freed >= amount * (1 + SLACK):
                break
            chosen.append((value, number))
            freed += float(size[number])
            self.gone[number] = True
        return self._return_surplus(chosen, freed - amount)

    def _iterate_lowest(self, least: Figures, score: Score) -> Iterator[tuple[float, int]]:
        """Movable datasets in the order of their scores. What is yielded counts as gone from then on."""
        order = np.argsort(least, kind="stable")
        bounds, numbers = least[order].tolist(), self._store.movable[order].tolist()
        again: list[tuple[float, int]] = []  # scores that were computed, and are outdated once something else goes
        at = 0
        while again or at < len(numbers):
            if at < len(numbers) and (not again or bounds[at] <= again[0][0]):
                number, at = numbers[at], at + 1
            else:
                number = heappop(again)[1]
            value = score(number)
            following = min(bounds[at] if at < len(numbers) else value, again[0][0] if again else value)
            if value <= following:
                yield value, number
            else:
                heappush(again, (value, number))

    def _return_surplus(self, chosen: list[tuple[float, int]], spare: float) -> list[int]:
        kept = []
        for _, number in sorted(chosen, reverse=True):
            size = float(self._store.bytes[number])
            if size <= spare:
                spare -= size
            else:
                kept.append(number)
        return kept[::-1]

    def sum_missing(self, start: int, links: Links, weights: Sequence[float]) -> float:
        """The weight of all that is gone and can be reached from a dataset over what is gone, each counted once."""
        total, seen, ahead = 0.0, {start}, [start]
        while ahead:
            for number in links[ahead.pop()]:
                if self.gone[number] and number not in seen:
                    seen.add(number)
                    total += weights[number]
                    ahead.append(number)
        return total
