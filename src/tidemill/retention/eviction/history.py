"""The history of submissions: all datasets, their derivations, and the demands for them.

Time is counted in submissions. A dataset is *demanded* by a submission that contains a new dataset derived from it:
then it must exist, or be recomputed. A dataset that is new itself is not demanded.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field

from tidemill.model.identity import Identity
from tidemill.retention.eviction.recency import RecencyClass, RecencyIndex
from tidemill.retention.eviction.series import SubmissionSeries
from tidemill.retention.eviction.waits import WaitStatistics, find_popularity_class

HALF_LIFE = 150
"""Submissions after which a demand counts half."""


@dataclass(frozen=True, slots=True)
class ProducedDataset:
    """A dataset of a submitted graph: its parents, the kind of its task, its cost and its size."""

    identity: Identity
    parents: tuple[Identity, ...]
    kind: str
    seconds: float
    bytes: int


@dataclass(slots=True)
class TaskKinds:
    """Statistics of the datasets that each kind of task produces, one entry per kind."""

    names: dict[str, int] = field(default_factory=dict)
    births: array[float] = field(default_factory=lambda: array("d"))
    demands: array[float] = field(default_factory=lambda: array("d"))
    departures: list[array[float]] = field(default_factory=list)  # from the latest graphs, to each recency class
    returns: list[array[float]] = field(default_factory=list)  # to them, from each recency class

    def get_number(self, name: str) -> int:
        if name not in self.names:
            self.names[name] = len(self.names)
            for counts in (self.births, self.demands):
                counts.append(0.0)
            for table in (self.departures, self.returns):
                table.append(array("d", [0.0] * len(RecencyClass)))
        return self.names[name]


class SubmissionHistory:
    """All datasets ever submitted. Each has a number, by which flat arrays hold its data."""

    def __init__(self) -> None:
        self.now = 0
        self.numbers: dict[Identity, int] = {}
        self.identities: list[Identity] = []
        self.parents: list[tuple[int, ...]] = []
        self.children: list[list[int]] = []
        self.kinds = TaskKinds()
        self.kind = array("i")
        self.seconds = array("d")
        self.bytes = array("d")
        self.demands = array("d")  # as of the last one, with decay
        self.demanded_at = array("d")  # the last one, or the birth
        self.recency = RecencyIndex(self.parents, self.children)
        self.popularity_class = array("i")  # popularity class in which it waits for the next demand
        self.waiting_since = array("d")  # when it began to wait, in submissions of its homes
        self.waited_before = array("d")  # how long it had waited when it entered that class
        self.series = SubmissionSeries()
        self.waits = WaitStatistics()

    def __len__(self) -> int:
        return len(self.identities)

    def record_submission(self, series: str, graph: Iterable[ProducedDataset]) -> None:
        """Record a submitted graph, parents before their children. `series` names the series that it continues."""
        self.now += 1
        home = self.series.record_submission(series)
        known_count = len(self)
        members, demanded = set(), set()
        for dataset in graph:
            is_new = dataset.identity not in self.numbers
            number = self._add_dataset(dataset) if is_new else self.numbers[dataset.identity]
            members.add(number)
            self.waiting_since[number] += self.series.add_member(number, home)
            if is_new:
                demanded |= {p for p in self.parents[number] if p < known_count}
        for number in demanded:
            self._record_demand(number)
        self._update_recency(series, frozenset(members), known_count)

    def _add_dataset(self, dataset: ProducedDataset) -> int:
        number = self.numbers[dataset.identity] = len(self)
        self.identities.append(dataset.identity)
        self.parents.append(tuple(dict.fromkeys(self.numbers[p] for p in dataset.parents)))
        self.children.append([])
        for parent in self.parents[number]:
            self.children[parent].append(number)
        self.recency.add_dataset(number)
        if dataset.kind not in self.kinds.names:
            self.waits.add_kind()
        kind = self.kinds.get_number(dataset.kind)
        self.kinds.births[kind] += 1
        self.kind.append(kind)
        self.seconds.append(dataset.seconds)
        self.bytes.append(dataset.bytes)
        for counter in (self.demands, self.popularity_class, self.waiting_since, self.waited_before):
            counter.append(0)
        self.demanded_at.append(self.now)
        return number

    def _record_demand(self, number: int) -> None:
        age = self.now - self.demanded_at[number]
        self.demands[number] = self.demands[number] * 0.5 ** (age / HALF_LIFE) + 1
        self.demanded_at[number] = self.now
        self._change_popularity(number, demanded=True)
        self.kinds.demands[self.kind[number]] += 1

    def _update_recency(self, series: str, members: frozenset[int], known_count: int) -> None:
        """Set the latest graph of the series, and update the recency classes."""
        for number, before in self.recency.replace_graph(series, members).items():
            kind, now = self.kind[number], self.recency.classes[number]
            if now == RecencyClass.LATEST:
                self.kinds.returns[kind][before] += number < known_count
            else:
                self.kinds.departures[kind][now] += 1
            self._change_popularity(number)

    def _change_popularity(self, number: int, *, demanded: bool = False) -> None:
        """Move a dataset to its current popularity class, where its wait continues; a demand starts a new wait."""
        submissions = self.series.count_submissions(number)
        waited = max(submissions - self.waiting_since[number], float(demanded))
        self.waits.record_wait(
            self.kind[number], self.popularity_class[number], self.waited_before[number], waited, demanded=demanded
        )
        if demanded:
            self.waiting_since[number] = submissions
        self.waited_before[number] = submissions - self.waiting_since[number]
        self.popularity_class[number] = find_popularity_class(self.demands[number], self.recency.classes[number])
