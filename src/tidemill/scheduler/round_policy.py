"""Policies with rounds: a job that has used its share waits for a later round."""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_left, insort

from tidemill.scheduler.job import Job
from tidemill.scheduler.sorted_policy import Entry, SortedPolicy


class RoundPolicy(SortedPolicy):
    """Sorted within a round. When no job is left in the round, the next one in which a job is due begins.

    The jobs of a round are sorted before it begins, so beginning it takes constant time. A job keeps its place however
    often it is marked as ready.
    """

    def __init__(self) -> None:
        super().__init__()
        self.round = 0
        self._later_entries: dict[int, list[Entry]] = {}
        self._due: dict[str, int] = {}

    @abstractmethod
    def find_due_round(self, job: Job) -> int:
        """Return the first round in which the job may run."""

    def mark_ready(self, job: Job, now: float) -> None:
        name = job.name
        if name in self._entry:
            return
        due = self.find_due_round(job)
        self._due[name] = due
        self._entry[name] = entry = (self.compute_key(job), job.batches[0][0], name, job)
        insort(self._entries if due <= self.round else self._later_entries.setdefault(due, []), entry)

    def mark_started(self, job: Job, now: float) -> None:
        entry = self._entry.pop(job.name, None)
        if entry is None:
            return
        due = self._due.pop(job.name)
        queue = self._entries if due <= self.round else self._later_entries[due]
        del queue[bisect_left(queue, entry)]
        if not queue:
            self._later_entries.pop(due, None)

    def start_round(self, now: float) -> bool:
        if not self._later_entries:
            return False
        self.round = min(self._later_entries)
        self._entries = self._later_entries.pop(self.round)
        return True
