"""Base class of window formers that count items: tokens, or complete waves."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from tidemill.model.window import Window
from tidemill.stream.windows.former import FormerOutput, QueueEntry, WindowFormer
from tidemill.stream.windows.items import Item, ItemQueue, ItemSource


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
