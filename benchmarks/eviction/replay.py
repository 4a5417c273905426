"""A history lived through under a budget: what has to be computed, and computed again.

Submissions come one after the other. What each needs and does not find is computed, as `retention/preparation.py`
says. Then, if intermediate datasets hold more than the budget, an algorithm chooses which go. Leaves do not count and
never go.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from benchmarks.eviction.submission import Submission
from tidemill.model.identity import Identity
from tidemill.model.states import Dataset, DatasetState
from tidemill.retention.eviction.history import SubmissionHistory
from tidemill.retention.eviction.store import DatasetStore, EvictionAlgorithm, to_figures
from tidemill.retention.preparation import RequestedAction, prepare_submission

STORED = Dataset(DatasetState.STORED)


@dataclass(slots=True)
class Replay:
    """What came of it: seconds of computing, and datasets deleted."""

    algorithm: EvictionAlgorithm
    budget: float
    seconds: float = 0.0
    evicted: int = 0
    history: SubmissionHistory = field(default_factory=SubmissionHistory)
    _present: dict[Identity, Dataset] = field(default_factory=dict)
    _leaves: set[Identity] = field(default_factory=set)
    _held: float = 0.0

    def live(self, submissions: Sequence[Submission]) -> Replay:
        for submission in submissions:
            self._submit(submission)
            if self._held > self.budget:
                self._evict(self._held - self.budget)
        return self

    @property
    def present(self) -> frozenset[Identity]:
        return frozenset(self._present)

    def _submit(self, submission: Submission) -> None:
        self.history.record_submission(submission.series, submission.graph)
        self._keep(submission.sinks())
        graph = {m.identity: m for m in submission.graph}
        plan = prepare_submission([RequestedAction(m.identity, m.parents) for m in submission.graph], self._present)
        for running in plan.run:
            made = graph[running.identity]
            self.seconds += made.seconds
            self._present[made.identity] = STORED
            self._held += 0 if made.identity in self._leaves else made.bytes
            for touched in (made.identity, *made.parents):
                self.history.record_use(self.history.numbers[touched])

    def _keep(self, sinks: frozenset[Identity]) -> None:
        """What is a leaf of any workflow stays for good, and no longer counts."""
        for identity in sinks - self._leaves:
            self._leaves.add(identity)
            if identity in self._present:
                self._held -= self.history.bytes[self.history.numbers[identity]]

    def _evict(self, amount: float) -> None:
        numbers = self.history.numbers
        movable = [numbers[i] for i in self._present if i not in self._leaves]
        stored = np.zeros(len(self.history), dtype=np.bool_)
        stored[[numbers[i] for i in self._present]] = True
        store = DatasetStore(
            stored, np.array(movable), to_figures(self.history.seconds), to_figures(self.history.bytes)
        )
        for number in self.algorithm.choose_datasets(self.history, store, amount):
            del self._present[self.history.identities[number]]
            self._held -= self.history.bytes[number]
            self.evicted += 1


class Hoarder:
    """Never asked, since it has all the space there is."""

    def choose_datasets(self, history: SubmissionHistory, store: DatasetStore, amount: float) -> list[int]:
        raise AssertionError("unlimited storage never overflows")


def unlimited(submissions: Sequence[Submission]) -> float:
    """Seconds of computing if nothing is ever deleted."""
    return Replay(Hoarder(), float("inf")).live(submissions).seconds


def intermediate_bytes(submissions: Sequence[Submission]) -> int:
    """What all datasets hold together that are no leaves: budgets are shares of it."""
    leaves = {i for s in submissions for i in s.sinks()}
    sizes = {m.identity: m.bytes for s in submissions for m in s.graph}
    return sum(size for identity, size in sizes.items() if identity not in leaves)


def demands(submissions: Sequence[Submission]) -> dict[Identity, list[int]]:
    """For each dataset the submissions, from 1 on, that demand it: what the clairvoyant knows."""
    found: dict[Identity, list[int]] = {}
    known: set[Identity] = set()
    for number, submission in enumerate(submissions, start=1):
        fresh = [m for m in submission.graph if m.identity not in known]
        for parent in {p for m in fresh for p in m.parents if p in known}:
            found.setdefault(parent, []).append(number)
        known.update(m.identity for m in fresh)
    return found
