"""Policies that sort jobs by a key: the job with the smallest key runs first, among all jobs or those of a round."""

from abc import abstractmethod
from bisect import bisect_left, insort
from collections.abc import Iterable
from operator import itemgetter

from tidemill.scheduler.job import Job
from tidemill.scheduler.order import SchedulingPolicy

Key = float | tuple[float, ...]

Entry = tuple[Key, float, str, Job]
"""Key, release time and name: among equal keys the job that has waited longest is first, and no two are equal."""

_job = itemgetter(3)


class SortedPolicy(SchedulingPolicy):
    """Ready jobs in one sorted list. A key may depend on the job and its pending batches, but not on the time."""

    def __init__(self) -> None:
        self._entries: list[Entry] = []
        self._entry: dict[str, Entry] = {}

    @abstractmethod
    def compute_key(self, job: Job) -> Key:
        """Return the sort key; the smallest goes first."""

    def mark_ready(self, job: Job, now: float) -> None:
        name = job.name
        entry = (self.compute_key(job), job.batches[0][0], name, job)
        before = self._entry.get(name)
        if before is not None:
            if before[0] == entry[0] and before[1] == entry[1]:
                return
            self._drop_entry(before)
        self._entry[name] = entry
        insort(self._entries, entry)

    def mark_started(self, job: Job, now: float) -> None:
        entry = self._entry.pop(job.name, None)
        entries = self._entries
        if entry is None:
            return
        if entries[0] is entry:  # the usual case
            del entries[0]
        else:
            self._drop_entry(entry)

    def rank_jobs(self, now: float) -> Iterable[Job]:
        return map(_job, self._entries)

    def _drop_entry(self, entry: Entry) -> None:
        del self._entries[bisect_left(self._entries, entry)]


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
