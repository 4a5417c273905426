"""Windows whose size or step is counted, in tokens or in waves, each of which counts once it is complete."""

from __future__ import annotations

from abc import abstractmethod
from bisect import insort
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import ClassVar, Protocol

from tidemill.model.window import Window
from tidemill.stream.windows.former import (
    NEVER,
    FormerOutput,
    QueueEntry,
    WindowFormer,
    drop_late_entries,
    expire_entries,
    list_present,
)

Item = list[QueueEntry]


class ItemSource(Protocol):
    """Builds items from events."""

    def add_entry(self, entry: QueueEntry) -> Item | None: ...
    def is_waiting_for(self, wave: int) -> bool: ...
    def complete_wave(self, wave: int) -> Item: ...
    def restore_entries(self, entries: Iterable[QueueEntry]) -> None:
        """Restore waiting events."""


class TokenSource:
    """Each event is an item."""

    def add_entry(self, entry: QueueEntry) -> Item | None:
        return [entry]

    def is_waiting_for(self, wave: int) -> bool:
        return False

    def complete_wave(self, wave: int) -> Item:
        raise AssertionError("tokens never wait")

    def restore_entries(self, entries: Iterable[QueueEntry]) -> None:
        """Do nothing: tokens never wait."""


class WaveSource:
    """A wave is an item once it is complete; until then its events wait."""

    def __init__(self) -> None:
        self._waiting: dict[int, Item] = {}

    def add_entry(self, entry: QueueEntry) -> Item | None:
        self.restore_entries([entry])
        return self.complete_wave(entry.wave) if entry.closes else None

    def is_waiting_for(self, wave: int) -> bool:
        return wave in self._waiting

    def complete_wave(self, wave: int) -> Item:
        return self._waiting.pop(wave)

    def restore_entries(self, entries: Iterable[QueueEntry]) -> None:
        for entry in entries:
            self._waiting.setdefault(entry.wave, []).append(entry)


class ItemQueue:
    """Items in order of completion, and the events that wait to complete one."""

    def __init__(self, source: ItemSource) -> None:
        self._source = source
        self.list: list[Item] = []
        self.ranked = 0

    def add_entry(self, entry: QueueEntry, out: FormerOutput) -> Item | None:
        """Return the item that this event completes, if any; it is not in the list yet."""
        item = self._source.add_entry(entry)
        return None if item is None else self._rank_item(item, out)

    def is_waiting_for(self, wave: int) -> bool:
        return self._source.is_waiting_for(wave)

    def complete_wave(self, wave: int, out: FormerOutput) -> Item:
        """Return the item of a wave that is complete because no more events follow."""
        return self._rank_item(self._source.complete_wave(wave), out)

    def _rank_item(self, item: Item, out: FormerOutput) -> Item:
        for member in item:
            member.rank = self.ranked
        self.ranked += 1
        out.changed.extend(item)
        return item

    def restore_entries(self, entries: Sequence[QueueEntry]) -> None:
        """Restore entries, which are ordered by rank: the parts of an item are adjacent, waiting events come first."""
        self._source.restore_entries(e for e in entries if e.rank < 0)
        ranked = groupby((e for e in entries if e.rank >= 0), key=lambda e: e.rank)
        self.list = [list(item) for _, item in ranked]


class CountingFormer(WindowFormer):
    NUMBERS: ClassVar[tuple[str, ...]] = ("formed", "ranked")

    def __init__(self, window: Window, source: ItemSource) -> None:
        super().__init__(window)
        self._items = ItemQueue(source)

    @property
    def ranked(self) -> int:
        return self._items.ranked

    @ranked.setter
    def ranked(self, number: int) -> None:
        self._items.ranked = number

    def add_entry(self, entry: QueueEntry, out: FormerOutput) -> None:
        self.pass_time(entry.arrived, out)
        item = self._items.add_entry(entry, out)
        if item is not None:
            self.add_item(item, entry.arrived, out)

    def is_waiting_for(self, wave: int) -> bool:
        return self._items.is_waiting_for(wave)

    def complete_wave(self, wave: int, at: int, out: FormerOutput) -> None:
        self.pass_time(at, out)
        self.add_item(self._items.complete_wave(wave, out), at, out)

    @abstractmethod
    def add_item(self, item: Item, at: int, out: FormerOutput) -> None:
        """Add an item, completed at this time: it is not in the list yet."""

    def restore_entries(self, entries: Sequence[QueueEntry]) -> None:
        self._items.restore_entries(entries)


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


class _WaveFormer(CountingFormer):
    def __init__(self, window: Window) -> None:
        super().__init__(window, WaveSource())

    def add_item(self, item: Item, at: int, out: FormerOutput) -> None:
        waves = self._items.list
        waves.append(item)
        while len(waves) >= self.step and (members := self.find_filled_window(waves)) is not None:
            self.form_window(members, None, at, out)
            expire_entries([e for wave in waves[: self.step] for e in wave], out)
            del waves[: self.step]

    @abstractmethod
    def find_filled_window(self, waves: list[list[QueueEntry]]) -> list[QueueEntry] | None:
        """Return the events of the window that begins with these waves; None: it is not filled yet."""


class WavesOverTokens(_WaveFormer):
    def find_filled_window(self, waves: list[list[QueueEntry]]) -> list[QueueEntry] | None:
        tokens = list_present(e for wave in waves for e in wave)
        return tokens[: self.size] if len(tokens) >= self.size else None


class WavesOverTime(_WaveFormer):
    """The time begins with the first wave's earliest event, and is over with an event after its end."""

    def find_filled_window(self, waves: list[list[QueueEntry]]) -> list[QueueEntry] | None:
        start = min(e.time for e in waves[0])
        end = start + self.size
        if all(e.time < end for wave in waves for e in wave):
            return None
        return list_present(e for wave in waves for e in wave if start <= e.time < end)
