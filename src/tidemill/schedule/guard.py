"""A guard on waiting: whatever the policy prefers, nobody waits for ever.

A job that has been ready for longer than its patience goes before all others, the one that was due first before the
rest. From then on every other job can go before it once at most, for whatever becomes ready later is due later. So with
updates chopped no job waits longer than its patience and one update of each job that may run on its tracks, however
much there is to do (`bound`).
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from itertools import takewhile
from math import inf

from tidemill.schedule.job import Job

Turn = tuple[float, str, Job]
"""When a job's patience ends."""


class Guard:
    """Who has waited too long."""

    def __init__(self, patience: float) -> None:
        self._patience = patience  # in periods of the job
        self.next = inf  # when the first patience ends
        self._turns: list[Turn] = []
        self._turn: dict[str, Turn] = {}

    def ready(self, job: Job, now: float) -> None:
        profile = job.profile
        if profile.name not in self._turn:
            turn = now + self._patience * profile.period, profile.name, job
            self._turn[profile.name] = turn
            insort(self._turns, turn)
            self.next = self._turns[0][0]

    def taken(self, job: Job) -> None:
        turn = self._turn.pop(job.profile.name)
        del self._turns[bisect_left(self._turns, turn)]
        self.next = self._turns[0][0] if self._turns else inf

    def overdue(self, now: float) -> Iterator[Job]:
        return (job for _, _, job in takewhile(lambda turn: turn[0] <= now, self._turns))


def bound(job: Job, others: Iterable[Job], *, patience: float, chop: float, tracks: int, slower: float = 1.0) -> float:
    """How long a job can have to wait at most, if updates take so many times as long as estimated at most.

    The others are those that may run on the job's own `tracks`. When its patience ends each of them is running there,
    or may go first, but not both; and until the job begins, none of its tracks is idle.
    """
    once = sum(slower * o.profile.cost(max(chop, 1.0) * o.profile.period) for o in others if o is not job)
    return patience * job.profile.period + once / tracks
