"""Every x seconds, the events of y seconds: windows that begin at multiples of the step."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence

from tidemill.model.window import Window
from tidemill.stream.windows.former import NEVER, Entry, Former, Out, by_time, leave, too_late


class TimeByTime(Former):
    """A window is over once an event has come that is behind its end, or its timeout has passed."""

    NUMBERS = ("formed", "floor")

    def __init__(self, window: Window) -> None:
        super().__init__(window)
        self.floor = NEVER  # where the first window begins that is not over
        self._queue: list[Entry] = []  # by time

    def arrive(self, entry: Entry, out: Out) -> None:
        self.pass_time(entry.arrived, out)
        if entry.time < self.floor:
            too_late([entry], out)
            return
        insort(self._queue, entry, key=by_time)
        self._advance(entry.time, entry.arrived, out)

    def pass_time(self, clock: int, out: Out) -> None:
        if self.window.patience is not None:
            self._advance(clock - self.window.patience, None, out)

    def _advance(self, mark: int, at: int | None, out: Out) -> None:
        """End all windows that end at or before the mark. `at` None: it is the clock that ends them."""
        while self._queue and (start := self._first()) + self.size <= mark:
            end = start + self.size
            at_once = end + (self.window.patience or 0) if at is None else at
            members = self._queue[self._place(start) : self._place(end)]
            if self.form(members, (start, end), at_once, out):
                del self._queue[self._place(start) : self._place(end)]
                out.left.extend(members)
            self._pass(start + self.step, out)
        self._pass(self._after(mark), out)

    def _first(self) -> int:
        """Where the first window begins that has an event and is not over."""
        return max(self.floor, self._after(self._queue[0].time))

    def _after(self, mark: int) -> int:
        """Where the first window begins that ends behind the mark."""
        return ((mark - self.size) // self.step + 1) * self.step

    def _place(self, time: int) -> int:
        return bisect_left(self._queue, (time, NEVER), key=by_time)

    def _pass(self, floor: int, out: Out) -> None:
        self.floor = max(self.floor, floor)
        behind = self._place(self.floor)
        leave(self._queue[:behind], out)
        del self._queue[:behind]

    def due(self) -> int | None:
        patience = self.window.patience
        return self._first() + self.size + patience if self._queue and patience is not None else None

    def restore(self, entries: Sequence[Entry]) -> None:
        self._queue = sorted(entries, key=by_time)
