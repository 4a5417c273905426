"""What has been submitted so far: which datasets there have been, what they were made from, and who asked for them.

Time is counted in submissions. A dataset is *demanded* by a submission that holds something which was never computed
before and is made from it: then it must be there, or be made again. It is no demand if it was new itself.
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
    """A dataset of a submitted graph: what it is made from, by which kind of task, in which time and at which size."""

    identity: Identity
    parents: tuple[Identity, ...]
    kind: str
    seconds: float
    bytes: int


@dataclass(slots=True)
class TaskKinds:
    """What is known of the datasets that one kind of task makes, one entry a kind."""

    names: dict[str, int] = field(default_factory=dict)
    births: array[float] = field(default_factory=lambda: array("d"))
    demands: array[float] = field(default_factory=lambda: array("d"))
    departures: list[array[float]] = field(default_factory=list)  # from the latest graphs, to each standing
    returns: list[array[float]] = field(default_factory=list)  # to them, from each standing

    def get_number(self, name: str) -> int:
        if name not in self.names:
            self.names[name] = len(self.names)
            for counts in (self.births, self.demands):
                counts.append(0.0)
            for table in (self.departures, self.returns):
                table.append(array("d", [0.0] * len(RecencyClass)))
        return self.names[name]


class SubmissionHistory:
    """Every dataset ever submitted has a number; all that is known of it stands in flat arrays under that number."""

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
        self.demands = array("d")  # as of the last one, with those before it decayed
        self.demanded_at = array("d")  # the last one, or the birth
        self.uses = array("d")  # how often it was made or read
        self.used_at = array("d")
        self.standings = RecencyIndex(self.parents, self.children)
        self.mood = array("i")  # in which it waits for the next demand
        self.since = array("d")  # when it began to wait, in submissions of its homes
        self.before = array("d")  # how long it had waited when it got into that mood
        self.series = SubmissionSeries()
        self.waits = WaitStatistics()

    def __len__(self) -> int:
        return len(self.identities)

    def record_submission(self, series: str, graph: Iterable[ProducedDataset]) -> None:
        """A graph was submitted, parents before their children. `series` says which earlier ones it comes after."""
        self.now += 1
        home = self.series.record_submission(series)
        known = len(self)
        members, demanded = set(), set()
        for made in graph:
            is_new = made.identity not in self.numbers
            number = self._add_dataset(made) if is_new else self.numbers[made.identity]
            members.add(number)
            self.since[number] += self.series.add_member(number, home)
            if is_new:
                demanded |= {p for p in self.parents[number] if p < known}
        for number in demanded:
            self._record_demand(number)
        self._update_recency(series, frozenset(members), known)

    def _add_dataset(self, made: ProducedDataset) -> int:
        number = self.numbers[made.identity] = len(self)
        self.identities.append(made.identity)
        self.parents.append(tuple(dict.fromkeys(self.numbers[p] for p in made.parents)))
        self.children.append([])
        for parent in self.parents[number]:
            self.children[parent].append(number)
        self.standings.add_dataset(number)
        if made.kind not in self.kinds.names:
            self.waits.add_kind()
        kind = self.kinds.get_number(made.kind)
        self.kinds.births[kind] += 1
        self.kind.append(kind)
        self.seconds.append(made.seconds)
        self.bytes.append(made.bytes)
        for zero in (self.demands, self.uses, self.mood, self.since, self.before):
            zero.append(0)
        for moment in (self.demanded_at, self.used_at):
            moment.append(self.now)
        return number

    def _record_demand(self, number: int) -> None:
        age = self.now - self.demanded_at[number]
        self.demands[number] = self.demands[number] * 0.5 ** (age / HALF_LIFE) + 1
        self.demanded_at[number] = self.now
        self._change_popularity(number, demanded=True)
        self.kinds.demands[self.kind[number]] += 1

    def _update_recency(self, series: str, members: frozenset[int], known: int) -> None:
        """The latest graph of the series is another one now."""
        for number, before in self.standings.replace_graph(series, members).items():
            kind, now = self.kind[number], self.standings.of[number]
            if now == RecencyClass.LATEST:
                self.kinds.returns[kind][before] += number < known
            else:
                self.kinds.departures[kind][now] += 1
            self._change_popularity(number)

    def _change_popularity(self, number: int, *, demanded: bool = False) -> None:
        """It is in another mood from now on, and goes on waiting in that; after a demand it begins to wait anew."""
        passed = self.series.count_submissions(number)
        waited = max(passed - self.since[number], float(demanded))
        self.waits.record_wait(self.kind[number], self.mood[number], self.before[number], waited, demanded=demanded)
        if demanded:
            self.since[number] = passed
        self.before[number] = passed - self.since[number]
        self.mood[number] = find_popularity_class(self.demands[number], self.standings.of[number])

    def record_use(self, number: int) -> None:
        """It was made, or read by something that ran."""
        self.uses[number] += 1
        self.used_at[number] = self.now
