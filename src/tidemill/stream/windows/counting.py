"""What all formers have in common that count items: tokens, or waves once they are complete."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from tidemill.model.window import Window
from tidemill.stream.windows.former import Entry, Former, Out
from tidemill.stream.windows.items import Item, Items, Source


class Counting(Former):
    NUMBERS: ClassVar[tuple[str, ...]] = ("formed", "ranked")

    def __init__(self, window: Window, source: Source) -> None:
        super().__init__(window)
        self._items = Items(source)

    @property
    def ranked(self) -> int:
        return self._items.ranked

    @ranked.setter
    def ranked(self, number: int) -> None:
        self._items.ranked = number

    def arrive(self, entry: Entry, out: Out) -> None:
        self.pass_time(entry.arrived, out)
        item = self._items.put(entry, out)
        if item is not None:
            self.take(item, entry.arrived, out)

    def waits_for(self, wave: int) -> bool:
        return self._items.waits_for(wave)

    def complete(self, wave: int, at: int, out: Out) -> None:
        self.pass_time(at, out)
        self.take(self._items.complete(wave, out), at, out)

    @abstractmethod
    def take(self, item: Item, at: int, out: Out) -> None:
        """Another item, made at this moment: it is not in the list yet."""

    def restore(self, entries: Sequence[Entry]) -> None:
        self._items.restore(entries)
