"""The items that windows count: tokens, each separately, or waves, each once it is complete."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Protocol

from tidemill.stream.windows.former import FormerOutput, QueueEntry

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
