"""Many small inserts and pushes that came at about the same time, as few blocks.

A block costs several transactions and forced writes, however few rows it has. Each insert still succeeds or fails
alone: its rows are checked before it meets the others, and its key finds its block if it is sent again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tidemill.errors import BadInput, Conflict, InsertUnderWay, KeyUsed, TidemillError
from tidemill.model.block import Block, BlockKind
from tidemill.model.channel import Channel
from tidemill.model.run import ProducerAdvance
from tidemill.model.schema import Schema
from tidemill.ports.storage import InsertBatch, InsertBatchLoader
from tidemill.runtime.runs.insert import Inserter, InsertResult
from tidemill.runtime.runs.push import (
    DuplicateMessage,
    PushMessage,
    build_refusal_error,
    classify_messages,
    compute_advances,
    join_messages,
    merge_advances,
)

MOST = 100_000
"""Rows of a block that is gathered."""


@dataclass(frozen=True, slots=True)
class SmallInsert:
    """What somebody wants to insert: the bytes of a file, under a key if it may be sent again."""

    channel: str
    data: bytes
    format: str
    key: str | None = None


@dataclass(frozen=True, slots=True)
class _CheckedInsert:
    """It was read and found good. `numbers` says whose answer it is: of one insert, or of several messages."""

    channel: Channel
    parcel: InsertBatch
    numbers: tuple[int, ...]
    key: str | None = None
    advances: tuple[ProducerAdvance, ...] = ()

    def can_join(self, others: Sequence[_CheckedInsert]) -> bool:
        """May it share a block with these? What is merged by key has each key once, and so has an insert key."""
        apart = all(self.parcel.keys.isdisjoint(o.parcel.keys) for o in others)
        once = self.key is None or all(self.key != o.key for o in others)
        few = sum(o.parcel.rows for o in others) + self.parcel.rows <= MOST
        return self.channel == others[0].channel and apart and once and few

    def build_answers(self, block: Block, *, repeated: bool) -> dict[int, Answer]:
        return dict.fromkeys(self.numbers, InsertResult(block, repeated))


Wanted = SmallInsert | PushMessage
Taken = InsertResult | DuplicateMessage
Answer = Taken | Exception
"""What became of one of several inserts or messages."""


@dataclass(frozen=True, slots=True)
class _ChannelValidator:
    """Reads what is wanted on one channel. What is wrong has its answer at once."""

    channel: Channel
    schema: Schema
    parcels: InsertBatchLoader
    answers: dict[int, Answer]

    def check_inserts(self, wanted: Mapping[int, SmallInsert]) -> Iterator[_CheckedInsert]:
        for n, one in wanted.items():
            try:
                yield _CheckedInsert(
                    self.channel, self._read_batch(one.data, "the upload", format=one.format), (n,), one.key
                )
            except TidemillError as error:
                self.answers[n] = error

    def check_messages(self, fresh: Mapping[int, PushMessage]) -> list[_CheckedInsert]:
        """All messages in one piece, which is much the cheapest; only if that cannot be, each for itself."""
        if not fresh:
            return []
        try:
            parcel = self._read_batch(join_messages(fresh.values()), "what was pushed", latest=True)
        except BadInput:
            return list(self._check_each(fresh))
        return [_CheckedInsert(self.channel, parcel, tuple(fresh), advances=compute_advances(fresh.values()))]

    def _check_each(self, fresh: Mapping[int, PushMessage]) -> Iterator[_CheckedInsert]:
        refused: set[str] = set()  # producers, whose later messages are not taken
        for n, message in fresh.items():
            try:
                if message.producer in refused:
                    raise build_refusal_error(message)
                parcel = self._read_batch(message.data, f"message {message.number}", latest=True)
                yield _CheckedInsert(self.channel, parcel, (n,), advances=compute_advances([message]))
            except BadInput as error:
                self.answers[n] = error
                refused.add(message.producer)

    def _read_batch(self, data: bytes, name: str, *, format: str = "jsonl", latest: bool = False) -> InsertBatch:
        updates = self.channel.updates
        return self.parcels.read_batch(data, name, format=format, schema=self.schema, updates=updates, latest=latest)


@dataclass(frozen=True, slots=True)
class InsertBatcher:
    """Inserts small files and messages for many callers."""

    inserter: Inserter
    parcels: InsertBatchLoader

    def insert_all(self, wanted: Sequence[Wanted]) -> list[Answer]:
        """Insert all of these, those of one channel in their order. What is wrong with one harms no other.

        But a producer's messages are taken in the order of their numbers: none is after one that failed.
        """
        answers: dict[int, Answer] = {}
        waiting: list[_CheckedInsert] = []
        twice: dict[int, int] = {}
        for channel in dict.fromkeys(one.channel for one in wanted):
            here = {n: one for n, one in enumerate(wanted) if one.channel == channel}
            try:
                waiting += self._check_channel(channel, here, answers, twice)
            except TidemillError as error:
                answers |= dict.fromkeys(here, error)
        while waiting:
            group, waiting = _split_group(waiting)
            answers |= self._insert_group(group)
        answers |= {n: answers[first] for n, first in twice.items()}
        return [answers[n] for n in range(len(wanted))]

    def _check_channel(
        self, name: str, here: Mapping[int, Wanted], answers: dict[int, Answer], twice: dict[int, int]
    ) -> list[_CheckedInsert]:
        checking = _ChannelValidator(*self.inserter.get_input_channel(name), self.parcels, answers)
        messages = {n: one for n, one in here.items() if isinstance(one, PushMessage)}
        producers = {message.producer for message in messages.values()}
        known = self.inserter.executor.catalog.read_producer_sequences(name, producers) if producers else {}
        found = classify_messages(messages, known)
        answers |= found.answers
        twice |= found.twice
        small = {n: one for n, one in here.items() if isinstance(one, SmallInsert)}
        return [*checking.check_inserts(small), *checking.check_messages(found.fresh)]

    def _insert_group(self, group: Sequence[_CheckedInsert]) -> dict[int, Answer]:
        try:
            return self._insert_block(group)
        except (Conflict, InsertUnderWay) as error:  # another server uses one of the keys: each for itself
            if len(group) > 1:
                return {n: answer for one in group for n, answer in self._insert_group([one]).items()}
            if isinstance(error, KeyUsed):  # meanwhile: its block is there by now
                return self._insert_group(group)
            return dict.fromkeys(group[0].numbers, error)
        except TidemillError as error:
            return {n: error for one in group for n in one.numbers}

    def _insert_block(self, group: Sequence[_CheckedInsert]) -> dict[int, Answer]:
        channel = group[0].channel.name
        keys = [one.key for one in group if one.key is not None]
        before = self.inserter.executor.catalog.find_inserted_blocks(channel, keys) if keys else {}
        rest = [one for one in group if one.key not in before]

        def fill_block(_to: Channel, _schema: Schema, directory: str, _tag: str) -> tuple[str, int]:
            self.parcels.write_batches([one.parcel for one in rest], Path(directory))
            return " ".join(one.parcel.digest for one in rest), sum(one.parcel.rows for one in rest)

        new = tuple(key for key in keys if key not in before)
        moves = merge_advances(move for one in rest for move in one.advances)
        made = self.inserter.insert_block(channel, BlockKind.DELTA, new, fill_block, moves) if rest else None
        return _build_answers(group, before, made)


def _build_answers(
    group: Sequence[_CheckedInsert], before: Mapping[str, Block], made: Block | None
) -> dict[int, Answer]:
    answers: dict[int, Answer] = {}
    for one in group:
        earlier = None if one.key is None else before.get(one.key)
        block = earlier or made
        assert block is not None  # what was not there before was made
        answers |= one.build_answers(block, repeated=earlier is not None)
    return answers


def _split_group(waiting: Sequence[_CheckedInsert]) -> tuple[list[_CheckedInsert], list[_CheckedInsert]]:
    """The first that waits with those that can go with it, and the others. On a channel nobody overtakes."""
    group, rest = list(waiting[:1]), list[_CheckedInsert]()
    for one in waiting[1:]:
        overtakes = any(other.channel == one.channel for other in rest)
        joins = not overtakes and one.can_join(group)
        (group if joins else rest).append(one)
    return group, rest
