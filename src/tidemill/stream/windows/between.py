"""Windows from an event that opens them to one that closes them."""

from collections.abc import Sequence

from tidemill.model.window import Between, Window
from tidemill.stream.windows.former import FormerOutput, QueueEntry, WindowFormer, expire_entries


class BetweenMarks(WindowFormer):
    """Windows between marker events; an event that arrives while no window is open is in none."""

    NUMBERS = ("formed", "opened")

    def __init__(self, window: Window) -> None:
        assert isinstance(window.size, Between)
        self.window = window
        self.formed = 0
        self._marks = window.size
        self.opened = int(window.size.opens is None)
        self._queue: list[QueueEntry] = []

    def add_entry(self, entry: QueueEntry, out: FormerOutput) -> None:
        self.opened = int(self.opened or entry.opens)
        if not self.opened:
            expire_entries([entry], out)
            return
        if entry.closes and self._marks.punctuation:
            out.removed.append(entry)
        else:
            self._queue.append(entry)
        if entry.closes:
            self._close_window(entry.arrived, out)

    def _close_window(self, time: int, out: FormerOutput) -> None:
        self.form_window(self._queue, None, time, out)
        expire_entries(self._queue, out)
        self._queue = []
        self.opened = int(self._marks.opens is None)

    def restore_entries(self, entries: Sequence[QueueEntry]) -> None:
        self._queue = list(entries)
