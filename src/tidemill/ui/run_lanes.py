"""Runs over time as bars on lanes, one lane for each track that an owner must have had."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from tidemill.model.run import Run

WINDOWS = (4 * 60.0, 20 * 60.0, 3600.0)
"""In seconds; the first that covers everything is used."""


def choose_window(first: float | None, now: float) -> float:
    """The length of the period to draw, given the start of the first item.

    >>> choose_window(first=100.0, now=200.0), choose_window(first=0.0, now=10_000.0), choose_window(None, 0.0)
    (240.0, 3600.0, 240.0)
    """
    needed = 0.0 if first is None else now - first
    return next((length for length in WINDOWS if length >= needed), WINDOWS[-1])


def format_marks(length: float) -> tuple[str, ...]:
    """Five marks below a drawing of that length.

    >>> format_marks(3600.0)
    ('60 min ago', '45', '30', '15', 'now')
    """
    minutes = [length / 60 * part / 4 for part in (4, 3, 2, 1)]
    return (f"{minutes[0]:g} min ago", *(f"{m:g}" for m in minutes[1:]), "now")


@dataclass(frozen=True, slots=True)
class RunLaneBar:
    """A run, and its position between the ends of the strip, 0 to 1."""

    run: Run
    left: float
    width: float


@dataclass(frozen=True, slots=True)
class RunLane:
    """The runs that one process executed one after the other on a track."""

    owner: str
    track: int  # counted from 1
    bars: tuple[RunLaneBar, ...]
    backfill: bool = False  # a track for backfills

    @property
    def name(self) -> str:
        return f"{self.owner} · {'backfill ' if self.backfill else ''}{self.track}"


def build_lanes(runs: Iterable[Run], since: float, now: float) -> tuple[RunLane, ...]:
    """The lanes of all runs that were active between `since` and `now`, by owner."""
    by_owner: dict[tuple[str, bool], list[Run]] = defaultdict(list)
    for run in runs:
        if run.started is not None and run.owner is not None and (run.finished or now) >= since:
            by_owner[run.owner, run.backfill].append(run)
    return tuple(
        RunLane(owner, number, tuple(_build_bar(r, since, now) for r in track), backfill)
        for owner, backfill in sorted(by_owner)
        for number, track in enumerate(_assign_tracks(by_owner[owner, backfill], now), start=1)
    )


def _assign_tracks(runs: Iterable[Run], now: float) -> list[list[Run]]:
    """The runs on the minimal number of tracks: each on the first track that was free when it started."""
    tracks: list[list[Run]] = []
    for run in sorted(runs, key=_get_start):
        free = next((t for t in tracks if (t[-1].finished or now) <= _get_start(run)), None)
        if free is None:
            tracks.append(free := [])
        free.append(run)
    return tracks


def _get_start(run: Run) -> float:
    return run.started or run.created


def _build_bar(run: Run, since: float, now: float) -> RunLaneBar:
    length = now - since
    begin = max(_get_start(run), since)
    end = run.finished or now
    return RunLaneBar(run, (begin - since) / length, max(end - begin, 0.0) / length)
