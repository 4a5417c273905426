"""Many small inserts and pushes that came at about the same time, as few blocks.

A block costs several transactions and forced writes, however few rows it has. Each insert still succeeds or fails
alone: its rows are checked before it meets the others, and its key finds its block if it is sent again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tidemill.errors import BadInput, Conflict, InsertUnderWay, KeyUsed, TidemillError
from tidemill.model.block import Block, Kind
from tidemill.model.channel import Channel
from tidemill.model.run import Advance
from tidemill.model.schema import Schema
from tidemill.ports.storage import Parcel, Parcels
from tidemill.runtime.runs.insert import Inserted, Inserter
from tidemill.runtime.runs.push import Message, Repeated, advances, after_refusal, chained, joined, sort_out

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
    """It was read and found good. `numbers` says whose answer it is: of one insert, or of several messages."""

    channel: Channel
    parcel: Parcel
    numbers: tuple[int, ...]
    key: str | None = None
    advances: tuple[Advance, ...] = ()

    def fits(self, others: Sequence[_Checked]) -> bool:
        """May it share a block with these? What is merged by key has each key once, and so has an insert key."""
        apart = all(self.parcel.keys.isdisjoint(o.parcel.keys) for o in others)
        once = self.key is None or all(self.key != o.key for o in others)
        few = sum(o.parcel.rows for o in others) + self.parcel.rows <= MOST
        return self.channel == others[0].channel and apart and once and few

    def answers(self, block: Block, *, repeated: bool) -> dict[int, Answer]:
        return dict.fromkeys(self.numbers, Inserted(block, repeated))


Wanted = Small | Message
Taken = Inserted | Repeated
Answer = Taken | Exception
"""What became of one of several inserts or messages."""


@dataclass(frozen=True, slots=True)
class _Checking:
    """Reads what is wanted on one channel. What is wrong has its answer at once."""

    channel: Channel
    schema: Schema
    parcels: Parcels
    answers: dict[int, Answer]

    def small(self, wanted: Mapping[int, Small]) -> Iterator[_Checked]:
        for n, one in wanted.items():
            try:
                yield _Checked(self.channel, self._read(one.data, "the upload", format=one.format), (n,), one.key)
            except TidemillError as error:
                self.answers[n] = error

    def pushed(self, fresh: Mapping[int, Message]) -> list[_Checked]:
        """All messages in one piece, which is much the cheapest; only if that cannot be, each for itself."""
        if not fresh:
            return []
        try:
            parcel = self._read(joined(fresh.values()), "what was pushed", latest=True)
        except BadInput:
            return list(self._one_by_one(fresh))
        return [_Checked(self.channel, parcel, tuple(fresh), advances=advances(fresh.values()))]

    def _one_by_one(self, fresh: Mapping[int, Message]) -> Iterator[_Checked]:
        refused: set[str] = set()  # producers, whose later messages are not taken
        for n, message in fresh.items():
            try:
                if message.producer in refused:
                    raise after_refusal(message)
                parcel = self._read(message.data, f"message {message.number}", latest=True)
                yield _Checked(self.channel, parcel, (n,), advances=advances([message]))
            except BadInput as error:
                self.answers[n] = error
                refused.add(message.producer)

    def _read(self, data: bytes, name: str, *, format: str = "jsonl", latest: bool = False) -> Parcel:
        updates = self.channel.updates
        return self.parcels.read(data, name, format=format, schema=self.schema, updates=updates, latest=latest)


@dataclass(frozen=True, slots=True)
class Gatherer:
    """Inserts small files and messages for many callers."""

    inserter: Inserter
    parcels: Parcels

    def insert(self, wanted: Sequence[Wanted]) -> list[Answer]:
        """Insert all of these, those of one channel in their order. What is wrong with one harms no other.

        But a producer's messages are taken in the order of their numbers: none is after one that failed.
        """
        answers: dict[int, Answer] = {}
        waiting: list[_Checked] = []
        twice: dict[int, int] = {}
        for channel in dict.fromkeys(one.channel for one in wanted):
            here = {n: one for n, one in enumerate(wanted) if one.channel == channel}
            try:
                waiting += self._checked(channel, here, answers, twice)
            except TidemillError as error:
                answers |= dict.fromkeys(here, error)
        while waiting:
            group, waiting = _first_group(waiting)
            answers |= self._together(group)
        answers |= {n: answers[first] for n, first in twice.items()}
        return [answers[n] for n in range(len(wanted))]

    def _checked(
        self, name: str, here: Mapping[int, Wanted], answers: dict[int, Answer], twice: dict[int, int]
    ) -> list[_Checked]:
        checking = _Checking(*self.inserter.fed(name), self.parcels, answers)
        messages = {n: one for n, one in here.items() if isinstance(one, Message)}
        producers = {message.producer for message in messages.values()}
        known = self.inserter.executor.catalog.producers(name, producers) if producers else {}
        found = sort_out(messages, known)
        answers |= found.answers
        twice |= found.twice
        small = {n: one for n, one in here.items() if isinstance(one, Small)}
        return [*checking.small(small), *checking.pushed(found.fresh)]

    def _together(self, group: Sequence[_Checked]) -> dict[int, Answer]:
        try:
            return self._in_one_block(group)
        except (Conflict, InsertUnderWay) as error:  # another server uses one of the keys: each for itself
            if len(group) > 1:
                return {n: answer for one in group for n, answer in self._together([one]).items()}
            if isinstance(error, KeyUsed):  # meanwhile: its block is there by now
                return self._together(group)
            return dict.fromkeys(group[0].numbers, error)
        except TidemillError as error:
            return {n: error for one in group for n in one.numbers}

    def _in_one_block(self, group: Sequence[_Checked]) -> dict[int, Answer]:
        channel = group[0].channel.name
        keys = [one.key for one in group if one.key is not None]
        before = self.inserter.executor.catalog.inserted(channel, keys) if keys else {}
        rest = [one for one in group if one.key not in before]

        def fill(_to: Channel, _schema: Schema, directory: str, _tag: str) -> tuple[str, int]:
            self.parcels.pack([one.parcel for one in rest], Path(directory))
            return " ".join(one.parcel.digest for one in rest), sum(one.parcel.rows for one in rest)

        new = tuple(key for key in keys if key not in before)
        moves = chained(move for one in rest for move in one.advances)
        made = self.inserter.insert(channel, Kind.DELTA, new, fill, moves) if rest else None
        return _answers(group, before, made)


def _answers(group: Sequence[_Checked], before: Mapping[str, Block], made: Block | None) -> dict[int, Answer]:
    answers: dict[int, Answer] = {}
    for one in group:
        earlier = None if one.key is None else before.get(one.key)
        block = earlier or made
        assert block is not None  # what was not there before was made
        answers |= one.answers(block, repeated=earlier is not None)
    return answers


def _first_group(waiting: Sequence[_Checked]) -> tuple[list[_Checked], list[_Checked]]:
    """The first that waits with those that can go with it, and the others. On a channel nobody overtakes."""
    group, rest = list(waiting[:1]), list[_Checked]()
    for one in waiting[1:]:
        overtakes = any(other.channel == one.channel for other in rest)
        joins = not overtakes and one.fits(group)
        (group if joins else rest).append(one)
    return group, rest
