"""Many small inserts that came at about the same time, as few blocks.

A block costs several transactions and forced writes, however few rows it has. Each insert still succeeds or fails
alone: its rows are checked before it meets the others, and its key finds its block if it is sent again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tidemill.errors import Conflict, TidemillError
from tidemill.model.block import Block, Kind
from tidemill.model.channel import Channel
from tidemill.model.schema import Schema
from tidemill.ports import Parcel, Parcels
from tidemill.runtime.insert import Inserted, Inserter

MOST = 100_000
"""Rows of a block that is gathered."""


@dataclass(frozen=True, slots=True)
class Small:
    """What somebody wants to insert: the bytes of a file, under a key if it may be sent again."""

    channel: str
    data: bytes
    format: str
    key: str | None = None


@dataclass(frozen=True, slots=True)
class _Checked:
    """It was read and found good."""

    channel: Channel
    parcel: Parcel
    key: str | None

    def fits(self, others: Sequence[_Checked]) -> bool:
        """May it share a block with these? What is merged by key has each key once, and so has an insert key."""
        apart = all(self.parcel.keys.isdisjoint(o.parcel.keys) for o in others)
        once = self.key is None or all(self.key != o.key for o in others)
        few = sum(o.parcel.rows for o in others) + self.parcel.rows <= MOST
        return self.channel == others[0].channel and apart and once and few


Answer = Inserted | Exception
"""What became of one of several inserts."""

_Numbered = list[tuple[int, _Checked]]


@dataclass(frozen=True, slots=True)
class Gatherer:
    """Inserts small files for many callers."""

    inserter: Inserter
    parcels: Parcels

    def insert(self, wanted: Sequence[Small]) -> list[Answer]:
        """Insert all of these, those of one channel in their order. What is wrong with one harms no other."""
        answers: dict[int, Answer] = {}
        waiting: _Numbered = []
        channel = cache(self.inserter.fed)
        for number, one in enumerate(wanted):
            try:
                to, schema = channel(one.channel)
                parcel = self.parcels.read(one.data, "the upload", format=one.format, schema=schema, updates=to.updates)
                waiting.append((number, _Checked(to, parcel, one.key)))
            except TidemillError as error:
                answers[number] = error
        while waiting:
            group, waiting = _first_group(waiting)
            answers.update(zip((n for n, _ in group), self._together([one for _, one in group]), strict=True))
        return [answers[n] for n in range(len(wanted))]

    def _together(self, group: Sequence[_Checked]) -> list[Answer]:
        try:
            return self._in_one_block(group)
        except Conflict as error:  # another server used one of the keys meanwhile: each for itself
            return [error] if len(group) == 1 else [answer for one in group for answer in self._together([one])]
        except TidemillError as error:
            return [error] * len(group)

    def _in_one_block(self, group: Sequence[_Checked]) -> list[Answer]:
        channel = group[0].channel.name
        keys = [one.key for one in group if one.key is not None]
        before = self.inserter.executor.catalog.inserted(channel, keys) if keys else {}
        rest = [one for one in group if one.key not in before]

        def fill(_to: Channel, _schema: Schema, directory: str, _tag: str) -> str:
            self.parcels.pack([one.parcel for one in rest], Path(directory))
            return " ".join(one.parcel.digest for one in rest)

        new = tuple(key for key in keys if key not in before)
        made = self.inserter.insert(channel, Kind.DELTA, new, fill) if rest else None
        return [_answer(None if one.key is None else before.get(one.key), made) for one in group]


def _answer(before: Block | None, made: Block | None) -> Inserted:
    found = before or made
    assert found is not None  # what was not there before was made
    return Inserted(found, repeated=before is not None)


def _first_group(waiting: _Numbered) -> tuple[_Numbered, _Numbered]:
    """The first that waits with those that can go with it, and the others. On a channel nobody overtakes."""
    group, rest = waiting[:1], _Numbered()
    for number, one in waiting[1:]:
        overtakes = any(other.channel == one.channel for _, other in rest)
        joins = not overtakes and one.fits([other for _, other in group])
        (group if joins else rest).append((number, one))
    return group, rest
