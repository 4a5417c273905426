"""A guard on waiting: whatever the policy prefers, nobody waits for ever.

A job that has been ready for longer than its patience goes before all others, the one that was due first before the
rest. From then on every other job can go before it once at most, for whatever becomes ready later is due later. So with
updates chopped no job waits longer than its patience and one update of each job that may run on its tracks, however
much there is to do (`bound`).
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable
from heapq import heappop, heappush
from math import inf
from operator import itemgetter

from tidemill.scheduler.job import Job

Turn = tuple[float, str, Job]
"""When a job's patience ends."""

_job = itemgetter(2)


class StarvationGuard:
    """Who waits, and who has waited too long.

    Hardly anybody does, so turns are not kept in order. Each job has one alarm, which stays when the job begins: only
    when it rings it is looked whether the job waits, and until when its patience lasts by now.
    """

    def __init__(self, patience: float | None) -> None:
        self._patience = inf if patience is None else patience  # in periods of the job
        self.waiting: dict[str, Turn] = {}
        self.next = inf  # nobody's patience ends before
        self._alarm: dict[str, float] = {}  # by name; never after the turn
        self._alarms: list[tuple[float, str]] = []
        self._late: list[Turn] = []

    def start_waiting(self, job: Job, now: float) -> None:
        """A job begins to wait."""
        name = job.name
        end = now + self._patience * job.profile.period
        self.waiting[name] = end, name, job
        if end < self._alarm.get(name, inf):
            self._set_alarm(end, name)

    def stop_waiting(self, job: Job) -> None:
        turn = self.waiting.pop(job.name)
        if self._late:
            place = bisect_left(self._late, turn)
            if place < len(self._late) and self._late[place] is turn:
                del self._late[place]

    def list_jobs(self) -> list[Job]:
        """All that wait."""
        return list(map(_job, self.waiting.values()))

    def list_overdue(self, now: float) -> Iterable[Job]:
        """Those whose patience has ended, the first of them first."""
        alarms = self._alarms
        while alarms and alarms[0][0] <= now:
            self._ring_alarm(*heappop(alarms), now)
        self.next = -inf if self._late else alarms[0][0] if alarms else inf
        return map(_job, self._late)

    def _set_alarm(self, at: float, name: str) -> None:
        self._alarm[name] = at
        heappush(self._alarms, (at, name))
        self.next = min(self.next, at)

    def _ring_alarm(self, at: float, name: str, now: float) -> None:
        if self._alarm.get(name) != at:
            return  # another was set for an earlier time
        del self._alarm[name]
        turn = self.waiting.get(name)
        if turn is not None and turn[0] <= now:
            insort(self._late, turn)
        elif turn is not None:
            self._set_alarm(turn[0], name)


def compute_wait_bound(
    job: Job, others: Iterable[Job], *, patience: float, chop: float, tracks: int, slower: float = 1.0
) -> float:
    """How long a job can have to wait at most, if updates take so many times as long as estimated at most.

    The others are those that may run on the job's own `tracks`. When its patience ends each of them is running there,
    or may go first, but not both; and until the job begins, none of its tracks is idle.
    """
    once = sum(slower * o.profile.cost(max(chop, 1.0) * o.profile.period) for o in others if o is not job)
    return patience * job.profile.period + once / tracks
