"""Base class of window formers: a queue of events, and its outputs."""

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
    arrived: int  # microseconds; never decreases
    wave: int = 0
    closes: bool = False  # it completes its wave, or closes its window
    opens: bool = False
    used: bool = False  # it was part of a window
    gone: bool = False  # it was deleted after use, and is kept only because its wave is
    rank: int = -1  # of its wave among the complete ones; -1: incomplete


@dataclass(frozen=True, slots=True)
class FormedWindow:
    number: int  # in its group, from 0
    start: int
    end: int
    formed_at: int  # when it was formed, by arrival time
    events: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class FormerOutput:
    """The outputs of a queue. Every event ends in a window, here, or both, unless it is still queued."""

    windows: list[FormedWindow] = field(default_factory=list)
    expired: list[QueueEntry] = field(default_factory=list)  # no longer needed; `used`: whether a window had them
    late: list[QueueEntry] = field(default_factory=list)  # arrived too late: in no window
    removed: list[QueueEntry] = field(default_factory=list)  # removed from the queue, for any reason
    changed: list[QueueEntry] = field(default_factory=list)  # used, deleted or ranked


by_time = attrgetter("time", "event")


class WindowFormer(ABC):
    """Forms the windows of one group. Its whole state is in its entries and numbers."""

    NUMBERS: ClassVar[tuple[str, ...]] = ("formed",)

    def __init__(self, window: Window) -> None:
        assert isinstance(window.size, Extent)
        self.window = window
        self.size = window.size.amount
        self.step = window.step.amount
        self.formed = 0

    @abstractmethod
    def add_entry(self, entry: QueueEntry, out: FormerOutput) -> None:
        """Add an event, which arrived after all earlier ones."""

    def is_waiting_for(self, wave: int) -> bool:
        """Tell whether events of a wave wait for its completion."""
        return False

    def complete_wave(self, wave: int, at: int, out: FormerOutput) -> None:  # noqa: B027
        """Complete a wave whose remaining events ended on the way."""

    def pass_time(self, clock: int, out: FormerOutput) -> None:  # noqa: B027
        """Form the windows that are due by the clock, without an event."""

    def find_due_time(self) -> int | None:
        """Return when `pass_time` has a window to form, if no event arrives before; None: never."""
        return None

    @abstractmethod
    def restore_entries(self, entries: Sequence[QueueEntry]) -> None:
        """Restore events to the empty queue, ordered by rank, then by arrival."""

    def form_window(
        self, members: Sequence[QueueEntry], bounds: tuple[int, int] | None, at: int, out: FormerOutput
    ) -> bool:
        """Form a window if there are enough events; True if they were deleted after use."""
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
    """Remove events that no further window contains."""
    for entry in entries:
        out.removed.append(entry)
        if not entry.gone:
            out.expired.append(entry)


def drop_late_entries(entries: Iterable[QueueEntry], out: FormerOutput) -> None:
    for entry in entries:
        out.removed.append(entry)
        out.late.append(entry)


def list_present(entries: Iterable[QueueEntry]) -> list[QueueEntry]:
    return [e for e in entries if not e.gone]
