"""How near a dataset is to what is worked with now.

The latest graph of each series is what its people work with. A dataset that is in none of them may still be made from
nothing but what is: then it is an alternative, one choice away. Otherwise what it was made from has been replaced, by
newer data or newer code, and whoever wants it would have to go back.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from enum import IntEnum

Links = Sequence[Sequence[int]]


class RecencyClass(IntEnum):
    REPLACED = 0
    BESIDE = 1  # all that it is made from is in the latest graphs, or beside them
    LATEST = 2  # in the latest graph of a series


class RecencyIndex:
    """Of every dataset, by its number; `parents` and `children` grow as datasets are added."""

    def __init__(self, parents: Links, children: Links) -> None:
        self.of = array("i")
        self._parents = parents
        self._children = children
        self._graphs = array("i")  # of how many series it is in the latest graph
        self._lost = array("i")  # how many of those that it is made from are replaced
        self._latest: dict[str, frozenset[int]] = {}

    def add_dataset(self, number: int) -> None:
        """A dataset is new, and in no graph that was followed yet."""
        self._graphs.append(0)
        self._lost.append(sum(self.of[p] == RecencyClass.REPLACED for p in self._parents[number]))
        self.of.append(self._classify_dataset(number))

    def replace_graph(self, series: str, members: frozenset[int]) -> dict[int, int]:
        """The latest graph of a series is another one now; returns whose standing changed, and what it was."""
        before = self._latest.get(series, frozenset())
        self._latest[series] = members
        for number in members - before:
            self._graphs[number] += 1
        for number in before - members:
            self._graphs[number] -= 1
        return self._reclassify_datasets(members ^ before)

    def _reclassify_datasets(self, touched: Iterable[int]) -> dict[int, int]:
        """Judge these anew, and what is made from those that are replaced now or no longer."""
        was: dict[int, int] = {}
        ahead = list(touched)
        while ahead:
            number = ahead.pop()
            old, new = self.of[number], self._classify_dataset(number)
            if old != new:
                was.setdefault(number, old)
                self.of[number] = new
            if (old == RecencyClass.REPLACED) != (new == RecencyClass.REPLACED):
                ahead += self._children[number]
                for child in self._children[number]:
                    self._lost[child] += 1 if new == RecencyClass.REPLACED else -1
        return {number: old for number, old in was.items() if self.of[number] != old}

    def _classify_dataset(self, number: int) -> RecencyClass:
        if self._graphs[number]:
            return RecencyClass.LATEST
        is_beside = self._parents[number] and not self._lost[number]
        return RecencyClass.BESIDE if is_beside else RecencyClass.REPLACED
