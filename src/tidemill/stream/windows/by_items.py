"""Windows whose size is counted, in tokens or complete waves, and whose step is counted likewise or in time."""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Sequence

from tidemill.model.window import Window
from tidemill.stream.windows.counting import CountingFormer
from tidemill.stream.windows.former import NEVER, FormerOutput, QueueEntry, drop_late_entries, expire_entries
from tidemill.stream.windows.items import Item, ItemSource


class _ItemFormer(CountingFormer):
    def form_first_window(self, bounds: tuple[int, int] | None, at: int, out: FormerOutput) -> None:
        """Form a window of the first items; used ones are removed if the window deletes them."""
        items = self._items.list[: self.size]
        if self.form_window(_flatten_items(items), bounds, at, out):
            del self._items.list[: self.size]
            expire_entries(_flatten_items(items), out)


class CountByCount(_ItemFormer):
    """Every x items, a window of y; where the step is larger than the size, the items between are in no window."""

    NUMBERS = ("formed", "ranked", "skip")

    def __init__(self, window: Window, source: ItemSource) -> None:
        super().__init__(window, source)
        self.skip = 0  # items still to skip

    def add_item(self, item: Item, at: int, out: FormerOutput) -> None:
        if self.skip:
            self.skip -= 1
            expire_entries(item, out)
            return
        self._items.list.append(item)
        if len(self._items.list) == self.size:
            self.form_first_window(None, at, out)
            expire_entries(_flatten_items(self._items.list[: self.step]), out)
            del self._items.list[: self.step]
            self.skip = max(0, self.step - self.size)


class TimeByCount(_ItemFormer):
    """Every x seconds, a window of the first y items from there on, as soon as there are that many.

    Windows begin at multiples of the step, if an item falls within the step. The time of a wave is that of its latest
    event.
    """

    NUMBERS = ("formed", "ranked", "floor")

    def __init__(self, window: Window, source: ItemSource) -> None:
        super().__init__(window, source)
        self.floor = NEVER
        delay = window.timeout_delay
        self._timeout = None if delay is None else self.step + delay

    def add_item(self, item: Item, at: int, out: FormerOutput) -> None:
        if _find_item_time(item) < self.floor:
            drop_late_entries(item, out)
            return
        insort(self._items.list, item, key=_build_sort_key)
        while len(self._items.list) >= self.size:
            self._form_next_window(at, out)

    def pass_time(self, clock: int, out: FormerOutput) -> None:
        if self._timeout is None:
            return
        while self._items.list and self._find_start() + self._timeout <= clock:
            self._form_next_window(self._find_start() + self._timeout, out)
        self._advance_floor(((clock - self._timeout) // self.step + 1) * self.step, out)

    def find_due_time(self) -> int | None:
        return self._find_start() + self._timeout if self._items.list and self._timeout is not None else None

    def restore_entries(self, entries: Sequence[QueueEntry]) -> None:
        super().restore_entries(entries)
        self._items.list.sort(key=_build_sort_key)

    def _find_start(self) -> int:
        return _find_item_time(self._items.list[0]) // self.step * self.step

    def _form_next_window(self, time: int, out: FormerOutput) -> None:
        start = self._find_start()
        self.form_first_window(None, time, out)
        self._advance_floor(start + self.step, out)

    def _advance_floor(self, floor: int, out: FormerOutput) -> None:
        self.floor = max(self.floor, floor)
        items = self._items.list
        while items and _find_item_time(items[0]) < self.floor:
            expire_entries(items.pop(0), out)


def _find_item_time(item: Item) -> int:
    return max(e.time for e in item)


def _build_sort_key(item: Item) -> tuple[int, int]:
    return _find_item_time(item), item[0].rank


def _flatten_items(items: Iterable[Item]) -> list[QueueEntry]:
    return [e for item in items for e in item]
