"""Windows whose size is counted, in tokens or complete waves, and whose step is counted in the same or in time."""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Sequence

from tidemill.model.window import Window
from tidemill.stream.windows.counting import Counting
from tidemill.stream.windows.former import NEVER, Entry, Out, leave, too_late
from tidemill.stream.windows.items import Item, Source


class _ByItems(Counting):
    def first(self, bounds: tuple[int, int] | None, at: int, out: Out) -> None:
        """Form a window of the first items; those used up go."""
        taken = self._items.list[: self.size]
        if self.form(_flat(taken), bounds, at, out):
            del self._items.list[: self.size]
            leave(_flat(taken), out)


class CountByCount(_ByItems):
    """Every x items, a window of y; where the step is larger than the size, what lies between is in no window."""

    NUMBERS = ("formed", "ranked", "skip")

    def __init__(self, window: Window, source: Source) -> None:
        super().__init__(window, source)
        self.skip = 0  # items still to step over

    def take(self, item: Item, at: int, out: Out) -> None:
        if self.skip:
            self.skip -= 1
            leave(item, out)
            return
        self._items.list.append(item)
        if len(self._items.list) == self.size:
            self.first(None, at, out)
            leave(_flat(self._items.list[: self.step]), out)
            del self._items.list[: self.step]
            self.skip = max(0, self.step - self.size)


class TimeByCount(_ByItems):
    """Every x seconds, a window of the first y items from there on, as soon as there are so many.

    Windows begin at multiples of the step, where something happened within the step. The time of a wave is that of its
    latest event.
    """

    NUMBERS = ("formed", "ranked", "floor")

    def __init__(self, window: Window, source: Source) -> None:
        super().__init__(window, source)
        self.floor = NEVER
        patience = window.patience
        self._timeout = None if patience is None else self.step + patience

    def take(self, item: Item, at: int, out: Out) -> None:
        if _time(item) < self.floor:
            too_late(item, out)
            return
        insort(self._items.list, item, key=_time_and_rank)
        while len(self._items.list) >= self.size:
            self._next(at, out)

    def pass_time(self, clock: int, out: Out) -> None:
        if self._timeout is None:
            return
        while self._items.list and self._start() + self._timeout <= clock:
            self._next(self._start() + self._timeout, out)
        self._pass(((clock - self._timeout) // self.step + 1) * self.step, out)

    def due(self) -> int | None:
        return self._start() + self._timeout if self._items.list and self._timeout is not None else None

    def restore(self, entries: Sequence[Entry]) -> None:
        super().restore(entries)
        self._items.list.sort(key=_time_and_rank)

    def _start(self) -> int:
        return _time(self._items.list[0]) // self.step * self.step

    def _next(self, at: int, out: Out) -> None:
        start = self._start()
        self.first(None, at, out)
        self._pass(start + self.step, out)

    def _pass(self, floor: int, out: Out) -> None:
        self.floor = max(self.floor, floor)
        items = self._items.list
        while items and _time(items[0]) < self.floor:
            leave(items.pop(0), out)


def _time(item: Item) -> int:
    return max(e.time for e in item)


def _time_and_rank(item: Item) -> tuple[int, int]:
    return _time(item), item[0].rank


def _flat(items: Iterable[Item]) -> list[Entry]:
    return [e for item in items for e in item]
