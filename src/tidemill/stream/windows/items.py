"""What windows count: tokens, each on its own, or waves, each once it is complete."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Protocol

from tidemill.stream.windows.former import Entry, Out

Item = list[Entry]


class Source(Protocol):
    """Makes items of events."""

    def put(self, entry: Entry) -> Item | None: ...
    def waits_for(self, wave: int) -> bool: ...
    def complete(self, wave: int) -> Item: ...
    def restore(self, entries: Iterable[Entry]) -> None:
        """Let events wait again."""


class Tokens:
    """Each event is an item."""

    def put(self, entry: Entry) -> Item | None:
        return [entry]

    def waits_for(self, wave: int) -> bool:
        return False

    def complete(self, wave: int) -> Item:
        raise AssertionError("tokens never wait")

    def restore(self, entries: Iterable[Entry]) -> None:
        """Tokens never wait."""


class Waves:
    """A wave is an item once it is complete; until then its events wait."""

    def __init__(self) -> None:
        self._waiting: dict[int, Item] = {}

    def put(self, entry: Entry) -> Item | None:
        self.restore([entry])
        return self.complete(entry.wave) if entry.closes else None

    def waits_for(self, wave: int) -> bool:
        return wave in self._waiting

    def complete(self, wave: int) -> Item:
        return self._waiting.pop(wave)

    def restore(self, entries: Iterable[Entry]) -> None:
        for entry in entries:
            self._waiting.setdefault(entry.wave, []).append(entry)


class Items:
    """Items in the order in which they were made, and the events that wait to become one."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self.list: list[Item] = []
        self.ranked = 0

    def put(self, entry: Entry, out: Out) -> Item | None:
        """The item that is made by this event, if any; it is not in the list yet."""
        item = self._source.put(entry)
        return None if item is None else self._ranked(item, out)

    def waits_for(self, wave: int) -> bool:
        return self._source.waits_for(wave)

    def complete(self, wave: int, out: Out) -> Item:
        """The item that a wave makes by the word that no more comes of it."""
        return self._ranked(self._source.complete(wave), out)

    def _ranked(self, item: Item, out: Out) -> Item:
        for member in item:
            member.rank = self.ranked
        self.ranked += 1
        out.changed.extend(item)
        return item

    def restore(self, entries: Sequence[Entry]) -> None:
        """Entries come in the order of their ranks: the parts of an item side by side, those that wait first."""
        self._source.restore(e for e in entries if e.rank < 0)
        ranked = groupby((e for e in entries if e.rank >= 0), key=lambda e: e.rank)
        self.list = [list(item) for _, item in ranked]
