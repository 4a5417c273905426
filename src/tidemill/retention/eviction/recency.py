"""Recency classes: how close a dataset is to the current graphs.

The latest graph of each series is the one in use. A dataset that is in none of them may still be derived only from
datasets that are: then it is an alternative, one choice away. Otherwise its inputs have been replaced by newer data or
code, and a demand for it would return to an old version.
"""

from array import array
from collections.abc import Iterable, Sequence
from enum import IntEnum

Links = Sequence[Sequence[int]]


class RecencyClass(IntEnum):
    REPLACED = 0
    BESIDE = 1  # all its inputs are in the latest graphs, or beside them
    LATEST = 2  # in the latest graph of a series


class RecencyIndex:
    """The recency class of every dataset, by number; `parents` and `children` grow as datasets are added."""

    def __init__(self, parents: Links, children: Links) -> None:
        self.classes = array("i")
        self._parents = parents
        self._children = children
        self._graphs = array("i")  # number of series in whose latest graph it is
        self._replaced_parents = array("i")  # number of its inputs that are replaced
        self._latest: dict[str, frozenset[int]] = {}

    def add_dataset(self, number: int) -> None:
        """Add a new dataset, which is in no latest graph yet."""
        self._graphs.append(0)
        self._replaced_parents.append(sum(self.classes[p] == RecencyClass.REPLACED for p in self._parents[number]))
        self.classes.append(self._classify_dataset(number))

    def replace_graph(self, series: str, members: frozenset[int]) -> dict[int, int]:
        """Set the latest graph of a series; return the datasets whose class changed, with the previous class."""
        before = self._latest.get(series, frozenset())
        self._latest[series] = members
        for number in members - before:
            self._graphs[number] += 1
        for number in before - members:
            self._graphs[number] -= 1
        return self._reclassify_datasets(members ^ before)

    def _reclassify_datasets(self, touched: Iterable[int]) -> dict[int, int]:
        """Reclassify these datasets, and the descendants of those that became or ceased to be replaced."""
        previous: dict[int, int] = {}
        pending = list(touched)
        while pending:
            number = pending.pop()
            old, new = self.classes[number], self._classify_dataset(number)
            if old != new:
                previous.setdefault(number, old)
                self.classes[number] = new
            if (old == RecencyClass.REPLACED) != (new == RecencyClass.REPLACED):
                pending += self._children[number]
                for child in self._children[number]:
                    self._replaced_parents[child] += 1 if new == RecencyClass.REPLACED else -1
        return {number: old for number, old in previous.items() if self.classes[number] != old}

    def _classify_dataset(self, number: int) -> RecencyClass:
        if self._graphs[number]:
            return RecencyClass.LATEST
        is_beside = self._parents[number] and not self._replaced_parents[number]
        return RecencyClass.BESIDE if is_beside else RecencyClass.REPLACED
