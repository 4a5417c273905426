"""Starvation guard: bounds the waiting time of every job under any policy.

A job that has been ready for longer than its patience goes before all others, the one that was due first before the
rest. From then on every other job can go before it once at most, because any job that becomes ready later is due later.
So with a catch-up limit no job waits longer than its patience and one update of each job that may run on its tracks,
under any load (`compute_wait_bound`).
"""

from bisect import bisect_left, insort
from collections.abc import Iterable
from heapq import heappop, heappush
from math import inf
from operator import itemgetter

from tidemill.scheduler.job import Job

Turn = tuple[float, str, Job]
"""When a job's patience ends, its name, and the job."""

_job = itemgetter(2)


class StarvationGuard:
    """The waiting jobs, and those that have waited too long.

    Few jobs do, so turns are not sorted. Each job has one alarm, which stays when the job starts: only when the alarm
    is due, the guard checks whether the job waits, and when its patience ends.
    """

    def __init__(self, patience: float | None) -> None:
        self.set_patience(patience)
        self.waiting: dict[str, Turn] = {}
        self.next_alarm = inf  # no job's patience ends before
        self._alarm: dict[str, float] = {}  # by name; never after the turn
        self._alarms: list[tuple[float, str]] = []
        self._overdue: list[Turn] = []

    def set_patience(self, patience: float | None) -> None:
        """Set the patience of jobs that start to wait, in periods of the job; None: no limit."""
        self._patience = inf if patience is None else patience

    def start_waiting(self, job: Job, now: float) -> None:
        name = job.name
        end = now + self._patience * job.profile.period
        self.waiting[name] = end, name, job
        if end < self._alarm.get(name, inf):
            self._set_alarm(end, name)

    def stop_waiting(self, job: Job) -> None:
        turn = self.waiting.pop(job.name)
        if self._overdue:
            position = bisect_left(self._overdue, turn)
            if position < len(self._overdue) and self._overdue[position] is turn:
                del self._overdue[position]

    def list_jobs(self) -> list[Job]:
        return list(map(_job, self.waiting.values()))

    def list_overdue(self, now: float) -> Iterable[Job]:
        """Return the jobs whose patience has ended, in the order of its end."""
        alarms = self._alarms
        while alarms and alarms[0][0] <= now:
            self._ring_alarm(*heappop(alarms), now)
        self.next_alarm = -inf if self._overdue else alarms[0][0] if alarms else inf
        return map(_job, self._overdue)

    def _set_alarm(self, time: float, name: str) -> None:
        self._alarm[name] = time
        heappush(self._alarms, (time, name))
        self.next_alarm = min(self.next_alarm, time)

    def _ring_alarm(self, time: float, name: str, now: float) -> None:
        if self._alarm.get(name) != time:
            return  # another was set for an earlier time
        del self._alarm[name]
        turn = self.waiting.get(name)
        if turn is not None and turn[0] <= now:
            insort(self._overdue, turn)
        elif turn is not None:
            self._set_alarm(turn[0], name)


def compute_wait_bound(
    job: Job, others: Iterable[Job], *, patience: float, catch_up_periods: float, tracks: int, slowdown: float = 1.0
) -> float:
    """Return the longest time that a job can wait, if updates take at most `slowdown` times their estimate.

    The others are those that may run on the job's own `tracks`. When its patience ends each of them is running there,
    or may go first, but not both; and until the job starts, none of its tracks is idle.
    """
    one_update_each = sum(
        slowdown * o.profile.cost(max(catch_up_periods, 1.0) * o.profile.period) for o in others if o is not job
    )
    return patience * job.profile.period + one_update_each / tracks
