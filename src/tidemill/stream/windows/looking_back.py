"""Every x tokens, a window that reaches back from the newest: over y seconds, or over the y newest waves."""

from bisect import bisect_right, insort
from collections.abc import Sequence

from tidemill.model.window import Window
from tidemill.stream.windows import former
from tidemill.stream.windows.former import NEVER, FormerOutput, QueueEntry, WindowFormer


class _LookBackFormer(WindowFormer):
    NUMBERS = ("formed", "count", "newest")

    def __init__(self, window: Window) -> None:
        super().__init__(window)
        self.count = 0  # events since the last window
        self.newest = NEVER

    def count_event(self) -> bool:
        """Count an event; True if a window ends with it."""
        self.count = (self.count + 1) % self.step
        return self.count == 0


class TokensOverTime(_LookBackFormer):
    """`newest` is the latest time; the window contains all events that are older by less than its size."""

    def __init__(self, window: Window) -> None:
        super().__init__(window)
        self._queue: list[QueueEntry] = []  # by time

    def add_entry(self, entry: QueueEntry, out: FormerOutput) -> None:
        if entry.time <= self.newest - self.size:
            former.drop_late_entries([entry], out)
            return
        self.newest = max(self.newest, entry.time)
        insort(self._queue, entry, key=former.by_time)
        expired_count = bisect_right(self._queue, self.newest - self.size, key=lambda e: e.time)
        former.expire_entries(self._queue[:expired_count], out)
        del self._queue[:expired_count]
        if self.count_event() and self.form_window(
            self._queue, (self.newest - self.size, self.newest), entry.arrived, out
        ):
            former.expire_entries(self._queue, out)
            self._queue = []

    def restore_entries(self, entries: Sequence[QueueEntry]) -> None:
        self._queue = sorted(entries, key=former.by_time)


class TokensOverWaves(_LookBackFormer):
    """`newest` is the newest removed wave; events of waves that are neither newer nor queued are late.

    Waves are ordered by their beginning. A wave stays until `size` waves have begun after it, even if all of its events
    were deleted.
    """

    def __init__(self, window: Window) -> None:
        super().__init__(window)
        self._waves: dict[int, list[QueueEntry]] = {}

    def add_entry(self, entry: QueueEntry, out: FormerOutput) -> None:
        if entry.wave not in self._waves and entry.wave <= self.newest:
            former.drop_late_entries([entry], out)
            return
        self.restore_entries([entry])
        if len(self._waves) > self.size:
            oldest = next(iter(self._waves))
            self.newest = max(self.newest, oldest)
            former.expire_entries(self._waves.pop(oldest), out)
        if self.count_event():
            members = former.list_present(e for wave in self._waves.values() for e in wave)
            self.form_window(members, None, entry.arrived, out)

    def restore_entries(self, entries: Sequence[QueueEntry]) -> None:
        for entry in entries:
            self._waves.setdefault(entry.wave, []).append(entry)
