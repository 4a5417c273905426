"""Every x seconds, the events of y seconds: windows that begin at multiples of the step."""

from bisect import bisect_left, insort
from collections.abc import Sequence

from tidemill.model.window import Window
from tidemill.stream.windows import former
from tidemill.stream.windows.former import NEVER, FormerOutput, QueueEntry, WindowFormer


class TimeByTime(WindowFormer):
    """A window closes once an event after its end has arrived, or its timeout has passed."""

    NUMBERS = ("formed", "floor")

    def __init__(self, window: Window) -> None:
        super().__init__(window)
        self.floor = NEVER  # start of the first open window
        self._queue: list[QueueEntry] = []  # by time

    def add_entry(self, entry: QueueEntry, out: FormerOutput) -> None:
        self.pass_time(entry.arrived, out)
        if entry.time < self.floor:
            former.drop_late_entries([entry], out)
            return
        insort(self._queue, entry, key=former.by_time)
        self._close_windows(entry.time, entry.arrived, out)

    def pass_time(self, clock: int, out: FormerOutput) -> None:
        if self.window.timeout_delay is not None:
            self._close_windows(clock - self.window.timeout_delay, None, out)

    def _close_windows(self, watermark: int, time: int | None, out: FormerOutput) -> None:
        """Close all windows that end at or before the watermark. `at` None: the clock closes them."""
        while self._queue and (start := self._find_first_start()) + self.size <= watermark:
            end = start + self.size
            formed_at = end + (self.window.timeout_delay or 0) if time is None else time
            members = self._queue[self._find_place(start) : self._find_place(end)]
            if self.form_window(members, (start, end), formed_at, out):
                del self._queue[self._find_place(start) : self._find_place(end)]
                out.removed.extend(members)
            self._advance_floor(start + self.step, out)
        self._advance_floor(self._find_window_start(watermark), out)

    def _find_first_start(self) -> int:
        """Return the start of the first open window that has an event."""
        return max(self.floor, self._find_window_start(self._queue[0].time))

    def _find_window_start(self, watermark: int) -> int:
        """Return the start of the first window that ends after the watermark."""
        return ((watermark - self.size) // self.step + 1) * self.step

    def _find_place(self, time: int) -> int:
        return bisect_left(self._queue, (time, NEVER), key=former.by_time)

    def _advance_floor(self, floor: int, out: FormerOutput) -> None:
        self.floor = max(self.floor, floor)
        expired_count = self._find_place(self.floor)
        former.expire_entries(self._queue[:expired_count], out)
        del self._queue[:expired_count]

    def find_due_time(self) -> int | None:
        delay = self.window.timeout_delay
        return self._find_first_start() + self.size + delay if self._queue and delay is not None else None

    def restore_entries(self, entries: Sequence[QueueEntry]) -> None:
        self._queue = sorted(entries, key=former.by_time)
