"""What all ways to form windows have in common: a queue, and what comes out of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import ClassVar

from tidemill.model.window import Extent, Window

NEVER = -(2**62)
"""Before all times, versions and waves."""


@dataclass(slots=True)
class QueueEntry:
    """An event in a queue, without its content."""

    event: int  # its number, in order of arrival over all groups
    time: int  # microseconds
    arrived: int  # microseconds; never goes back
    wave: int = 0
    closes: bool = False  # with it its wave is complete, or its window closed
    opens: bool = False
    used: bool = False  # it was part of a window
    gone: bool = False  # it was deleted once used, and is kept only because its wave is
    rank: int = -1  # of its wave among those complete; -1: it is not


@dataclass(frozen=True, slots=True)
class FormedWindow:
    """A window."""

    number: int  # in its group, from 0
    start: int
    end: int
    at: int  # when it was formed, on the clock of arrivals
    events: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class FormerOutput:
    """What comes out of a queue. Every event ends in a window, here, or both, unless it still waits."""

    windows: list[FormedWindow] = field(default_factory=list)
    expired: list[QueueEntry] = field(default_factory=list)  # stepped over; `used` says whether a window had them
    late: list[QueueEntry] = field(default_factory=list)  # came after their time: part of no window
    left: list[QueueEntry] = field(default_factory=list)  # no longer in the queue, for whatever reason
    changed: list[QueueEntry] = field(default_factory=list)  # used, deleted or ranked


by_time = attrgetter("time", "event")


class WindowFormer(ABC):
    """Forms the windows of one group. Everything it knows is in its entries and numbers."""

    NUMBERS: ClassVar[tuple[str, ...]] = ("formed",)

    def __init__(self, window: Window) -> None:
        assert isinstance(window.size, Extent)
        self.window = window
        self.size = window.size.amount
        self.step = window.step.amount
        self.formed = 0

    @abstractmethod
    def add_entry(self, entry: QueueEntry, out: FormerOutput) -> None:
        """Take an event in; it came after all that were taken in before."""

    def is_waiting_for(self, wave: int) -> bool:
        """Are there events of a wave that wait until it is complete?"""
        return False

    def complete_wave(self, wave: int, at: int, out: FormerOutput) -> None:  # noqa: B027
        """A wave that it waits for is complete, though no event of it says so: the rest of it ended on the way."""

    def pass_time(self, clock: int, out: FormerOutput) -> None:  # noqa: B027
        """Form what is due by now although no event says so."""

    def find_due_time(self) -> int | None:
        """When `pass_time` has something to form, if no event comes before; None: never."""
        return None

    @abstractmethod
    def restore_entries(self, entries: Sequence[QueueEntry]) -> None:
        """Put events back into the empty queue; they come in the order of their ranks, then of their arrival."""

    def form_window(
        self, members: Sequence[QueueEntry], bounds: tuple[int, int] | None, at: int, out: FormerOutput
    ) -> bool:
        """Form a window if there are enough events; were they used up?"""
        if len(members) < self.window.at_least:
            return False
        start, end = bounds or (min(e.time for e in members), max(e.time for e in members))
        out.windows.append(FormedWindow(self.formed, start, end, at, tuple(e.event for e in members)))
        self.formed += 1
        for entry in members:
            entry.used = True
            entry.gone = self.window.delete_used
        out.changed.extend(members)
        return self.window.delete_used


def expire_entries(entries: Iterable[QueueEntry], out: FormerOutput) -> None:
    """Let events go that no window will have any more."""
    for entry in entries:
        out.left.append(entry)
        if not entry.gone:
            out.expired.append(entry)


def drop_late_entries(entries: Iterable[QueueEntry], out: FormerOutput) -> None:
    for entry in entries:
        out.left.append(entry)
        out.late.append(entry)


def list_present(entries: Iterable[QueueEntry]) -> list[QueueEntry]:
    return [e for e in entries if not e.gone]
