"""EDF-partitioned tracks: on each, earliest deadline first would load every batch before the next one comes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from tidemill.errors import Infeasible
from tidemill.scheduler.job import Profile
from tidemill.scheduler.tracks.lane import Lane, Shared

TINY = 1e-9
"""Sums of loads that should be equal may differ by that."""


@dataclass(frozen=True, slots=True)
class _Track:
    """What a track has to do."""

    load: float = 0.0
    longest: float = 0.0  # of its jobs' usual times
    shortest: float = float("inf")  # of its jobs' periods

    def after(self, job: Profile) -> _Track:
        return _Track(self.load + job.load, max(self.longest, job.usual), min(self.shortest, job.period))

    @property
    def feasible(self) -> bool:
        """No deadline is missed, though no job is interrupted: the last term is what that costs."""
        return self.load <= 1 - self.longest / self.shortest + TINY


@dataclass(frozen=True, slots=True)
class Partitioned:
    """Jobs by increasing period, each on the last track begun, or on a new one where it does not fit.

    A job may be a guest on a track that would bear it as well; if not aggressive, only while nobody waits for its home
    there.
    """

    aggressive: bool = False

    def lanes(self, profiles: Sequence[Profile], tracks: int) -> Iterable[Shared]:
        homes, used = _packed(profiles)
        if len(used) > tracks:
            raise Infeasible(
                f"expected the jobs to fit on {tracks} tracks, found that {len(used)} are needed for all deadlines; "
                "add tracks, or choose proportional tracks, which need no certain number"
            )
        free = tuple(range(len(used), tracks))
        return [
            (Lane((home,), free, tuple(_guest(p, home, used)), polite=not self.aggressive), [p])
            for p, home in zip(profiles, (homes[p.name] for p in profiles), strict=True)
        ]


def _packed(profiles: Sequence[Profile]) -> tuple[dict[str, int], list[_Track]]:
    homes: dict[str, int] = {}
    used: list[_Track] = []
    for job in sorted(profiles, key=lambda p: (p.period, p.name)):
        if used and used[-1].after(job).feasible:
            used[-1] = used[-1].after(job)
        else:
            used.append(_Track().after(job))
        homes[job.name] = len(used) - 1
    return homes, used


def _guest(job: Profile, home: int, used: Sequence[_Track]) -> Iterator[int]:
    return (i for i, track in enumerate(used) if i != home and track.after(job).feasible)
