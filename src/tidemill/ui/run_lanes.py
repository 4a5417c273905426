"""Runs over time, as bars on lanes: one lane for each track that an owner must have had, backfills apart. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from tidemill.model.run import Run


@dataclass(frozen=True, slots=True)
class Bar:
    """A run, and where it lies between the ends of the strip, 0 to 1."""

    run: Run
    left: float
    width: float


@dataclass(frozen=True, slots=True)
class Lane:
    """What ran one after the other in one process."""

    owner: str
    track: int  # counted from 1
    bars: tuple[Bar, ...]
    backfill: bool = False  # a track for backfills

    @property
    def name(self) -> str:
        return f"{self.owner} · {'backfill ' if self.backfill else ''}{self.track}"


def strip(runs: Iterable[Run], since: float, now: float) -> tuple[Lane, ...]:
    """The lanes of all runs that were under way between `since` and `now`, by owner."""
    by_owner: dict[tuple[str, bool], list[Run]] = defaultdict(list)
    for run in runs:
        if run.started is not None and run.owner is not None and (run.finished or now) >= since:
            by_owner[run.owner, run.backfill].append(run)
    return tuple(
        Lane(owner, number, tuple(_bar(r, since, now) for r in track), backfill)
        for owner, backfill in sorted(by_owner)
        for number, track in enumerate(_tracks(by_owner[owner, backfill], now), start=1)
    )


def _tracks(runs: Iterable[Run], now: float) -> list[list[Run]]:
    """Runs on as few tracks as they can have run on: each on the first that was free when it started."""
    tracks: list[list[Run]] = []
    for run in sorted(runs, key=_started):
        free = next((t for t in tracks if (t[-1].finished or now) <= _started(run)), None)
        if free is None:
            tracks.append(free := [])
        free.append(run)
    return tracks


def _started(run: Run) -> float:
    return run.started or run.created


def _bar(run: Run, since: float, now: float) -> Bar:
    length = now - since
    begin = max(_started(run), since)
    end = run.finished or now
    return Bar(run, (begin - since) / length, max(end - begin, 0.0) / length)
