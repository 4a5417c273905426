"""Replay of a history with a storage budget: the seconds of computing datasets, again after an eviction.

Submissions arrive in sequence. Missing datasets of each are computed, as `retention/preparation.py` decides. Then, if
intermediate datasets exceed the budget, an algorithm chooses datasets to evict. Leaves do not count and are never
evicted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from benchmarks.eviction.algorithms import EvictionAlgorithm, UsageHistory
from benchmarks.eviction.submission import Submission
from tidemill.model.identity import Identity
from tidemill.model.states import Dataset, DatasetState
from tidemill.model.submission import RequestedAction
from tidemill.retention.eviction.history import SubmissionHistory
from tidemill.retention.eviction.store import DatasetStore, to_figures
from tidemill.retention.preparation import prepare_submission

STORED = Dataset(DatasetState.STORED)


@dataclass(slots=True)
class Replay:
    """A replay and its result: seconds of computing, and the number of evicted datasets."""

    algorithm: EvictionAlgorithm
    budget: float
    seconds: float = 0.0
    evicted: int = 0
    history: UsageHistory = field(default_factory=UsageHistory)
    _present: dict[Identity, Dataset] = field(default_factory=dict)
    _leaves: set[Identity] = field(default_factory=set)
    _intermediate_bytes: float = 0.0

    def run(self, submissions: Sequence[Submission]) -> Replay:
        for submission in submissions:
            self._submit(submission)
            if self._intermediate_bytes > self.budget:
                self._evict(self._intermediate_bytes - self.budget)
        return self

    @property
    def present(self) -> frozenset[Identity]:
        return frozenset(self._present)

    def _submit(self, submission: Submission) -> None:
        self.history.record_submission(submission.series, submission.graph)
        self._mark_leaves(submission.find_sinks())
        graph = {d.identity: d for d in submission.graph}
        plan = prepare_submission([RequestedAction(d.identity, d.parents) for d in submission.graph], self._present)
        for action in plan.run:
            dataset = graph[action.identity]
            self.seconds += dataset.seconds
            self._present[dataset.identity] = STORED
            self._intermediate_bytes += 0 if dataset.identity in self._leaves else dataset.bytes
            for touched in (dataset.identity, *dataset.parents):
                self.history.record_use(self.history.numbers[touched])

    def _mark_leaves(self, find_sinks: frozenset[Identity]) -> None:
        """Exclude leaves of any workflow from eviction and from the counted bytes."""
        for identity in find_sinks - self._leaves:
            self._leaves.add(identity)
            if identity in self._present:
                self._intermediate_bytes -= self.history.bytes[self.history.numbers[identity]]

    def _evict(self, amount: float) -> None:
        numbers = self.history.numbers
        evictable = [numbers[i] for i in self._present if i not in self._leaves]
        is_stored = np.zeros(len(self.history), dtype=np.bool_)
        is_stored[[numbers[i] for i in self._present]] = True
        store = DatasetStore(
            is_stored, np.array(evictable), to_figures(self.history.seconds), to_figures(self.history.bytes)
        )
        for number in self.algorithm.choose_datasets(self.history, store, amount):
            del self._present[self.history.identities[number]]
            self._intermediate_bytes -= self.history.bytes[number]
            self.evicted += 1


class NoEviction:
    """The algorithm of unlimited storage, which is never called."""

    def choose_datasets(self, history: SubmissionHistory, store: DatasetStore, amount: float) -> list[int]:
        raise AssertionError("unlimited storage never overflows")


def compute_unlimited_seconds(submissions: Sequence[Submission]) -> float:
    """Seconds of computing with unlimited storage."""
    return Replay(NoEviction(), float("inf")).run(submissions).seconds


def sum_intermediate_bytes(submissions: Sequence[Submission]) -> int:
    """Total size of all datasets that are not leaves; budgets are shares of it."""
    leaves = {i for s in submissions for i in s.find_sinks()}
    sizes = {d.identity: d.bytes for s in submissions for d in s.graph}
    return sum(size for identity, size in sizes.items() if identity not in leaves)


def find_demands(submissions: Sequence[Submission]) -> dict[Identity, list[int]]:
    """For each dataset the submissions, from 1 on, that demand it: the input of the clairvoyant algorithm."""
    demands_by_dataset: dict[Identity, list[int]] = {}
    existing: set[Identity] = set()
    for number, submission in enumerate(submissions, start=1):
        new_datasets = [d for d in submission.graph if d.identity not in existing]
        for parent in {p for d in new_datasets for p in d.parents if p in existing}:
            demands_by_dataset.setdefault(parent, []).append(number)
        existing.update(d.identity for d in new_datasets)
    return demands_by_dataset
