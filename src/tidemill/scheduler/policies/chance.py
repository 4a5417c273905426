"""Random."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

from tidemill.scheduler.job import Job
from tidemill.scheduler.order import Plain


class Chance(Plain):
    """Any of the ready jobs, all equally likely.

    The jobs are kept shuffled: who comes gets any place, and what is left when the first is taken is as random as
    before.
    """

    def __init__(self, random: Random | None = None) -> None:
        self._random = random or Random(0)
        self._shuffled: list[Job] = []
        self._known: set[str] = set()

    def ready(self, job: Job, now: float) -> None:
        if job.name not in self._known:
            self._known.add(job.name)
            self._shuffled.insert(self._random.randrange(len(self._shuffled) + 1), job)

    def taken(self, job: Job, now: float) -> None:
        if job.name in self._known:
            self._known.remove(job.name)
            self._shuffled.remove(job)

    def ranked(self, now: float) -> Iterable[Job]:
        return self._shuffled
