"""The second of two interfaces: on which track a job may run; and one queue for all tracks.

The answer is data: lanes, and who runs in each of them. Jobs with equal lanes are treated alike. Whoever dispatches
reads lanes and knows nothing of how they came about.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from tidemill.scheduler.job import Profile


@dataclass(frozen=True, slots=True)
class Lane:
    """The tracks of a job, in the order in which they are tried."""

    home: tuple[int, ...]
    free: tuple[int, ...] = ()  # nobody's home
    guest: tuple[int, ...] = ()  # the homes of others
    polite: bool = True  # a guest only where nobody waits for its home


Shared = tuple[Lane, Sequence[Profile]]
"""A lane, and jobs that run in it."""


class Placement(Protocol):
    """Puts jobs on tracks. Asked again whenever jobs, what is known of them, or the number of tracks change."""

    def lanes(self, profiles: Sequence[Profile], tracks: int) -> Iterable[Shared]:
        """Each job has one lane; tracks are numbered from 0."""
        ...


@dataclass(frozen=True, slots=True)
class SingleQueue:
    """Every job may run anywhere."""

    def lanes(self, profiles: Sequence[Profile], tracks: int) -> Iterable[Shared]:
        return [(Lane(tuple(range(tracks))), profiles)]
