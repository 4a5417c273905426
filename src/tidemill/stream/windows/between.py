"""Windows from an event that opens them to one that closes them."""

from __future__ import annotations

from collections.abc import Sequence

from tidemill.model.window import Between, Window
from tidemill.stream.windows.former import Entry, Former, Out, leave


class BetweenMarks(Former):
    """What comes while no window is open is in none."""

    NUMBERS = ("formed", "opened")

    def __init__(self, window: Window) -> None:
        assert isinstance(window.size, Between)
        self.window = window
        self.formed = 0
        self._marks = window.size
        self.opened = int(window.size.opens is None)
        self._queue: list[Entry] = []

    def arrive(self, entry: Entry, out: Out) -> None:
        self.opened = int(self.opened or entry.opens)
        if not self.opened:
            leave([entry], out)
            return
        if entry.closes and self._marks.punctuation:
            out.left.append(entry)
        else:
            self._queue.append(entry)
        if entry.closes:
            self._close(entry.arrived, out)

    def _close(self, at: int, out: Out) -> None:
        self.form(self._queue, None, at, out)
        leave(self._queue, out)
        self._queue = []
        self.opened = int(self._marks.opens is None)

    def restore(self, entries: Sequence[Entry]) -> None:
        self._queue = list(entries)
