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
    def restore(self, entries: Iterable[Entry]) -> None:
        """Let events wait again."""


class Tokens:
    """Each event is an item."""

    def put(self, entry: Entry) -> Item | None:
        return [entry]

    def restore(self, entries: Iterable[Entry]) -> None:
        """Tokens never wait."""


class Waves:
    """A wave is an item once it is complete; until then its events wait."""

    def __init__(self) -> None:
        self._waiting: dict[int, Item] = {}

    def put(self, entry: Entry) -> Item | None:
        self.restore([entry])
        return self._waiting.pop(entry.wave) if entry.closes else None

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
        if item is not None:
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
