"""Batches small inserts and pushed messages that arrive together into few blocks.

A block costs several transactions and forced writes, however few rows it has. Each insert still succeeds or fails
alone: its rows are validated before it joins a batch, and its idempotency key finds its block if it is sent again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tidemill.errors import BadInput, Conflict, DuplicateKey, InsertInProgress, TidemillError
from tidemill.model.block import Block, BlockKind
from tidemill.model.channel import Channel
from tidemill.model.run import ProducerAdvance
from tidemill.model.schema import Schema
from tidemill.ports.storage import InsertBatch, InsertBatchLoader
from tidemill.runtime.runs import push
from tidemill.runtime.runs.insert import Inserter, InsertResult

MAX_BATCH_ROWS = 100_000
"""Maximum number of rows of a batched block."""


@dataclass(frozen=True, slots=True)
class SmallInsert:
    """A request to insert the bytes of a file, with an idempotency key if it may be sent again."""

    channel: str
    data: bytes
    format: str
    key: str | None = None


@dataclass(frozen=True, slots=True)
class _CheckedInsert:
    """A validated insert. `positions` are the positions of its requests: one insert, or several messages."""

    channel: Channel
    batch: InsertBatch
    positions: tuple[int, ...]
    key: str | None = None
    advances: tuple[ProducerAdvance, ...] = ()

    def can_join(self, others: Sequence[_CheckedInsert]) -> bool:
        """Tell whether it may share a block with these: a block has each merge key and idempotency key at most once."""
        keys_disjoint = all(self.batch.keys.isdisjoint(o.batch.keys) for o in others)
        has_unique_key = self.key is None or all(self.key != o.key for o in others)
        fits = sum(o.batch.rows for o in others) + self.batch.rows <= MAX_BATCH_ROWS
        return self.channel == others[0].channel and keys_disjoint and has_unique_key and fits


InsertRequest = SmallInsert | push.PushMessage
InsertSuccess = InsertResult | push.DuplicateMessage
InsertAnswer = InsertSuccess | Exception
"""Result of one of several inserts or messages."""


@dataclass(frozen=True, slots=True)
class _ChannelValidator:
    """Reads and validates the requests for one channel; an invalid one is answered at once."""

    channel: Channel
    schema: Schema
    loader: InsertBatchLoader
    answers: dict[int, InsertAnswer]

    def check_inserts(self, inserts: Mapping[int, SmallInsert]) -> Iterator[_CheckedInsert]:
        for n, insert in inserts.items():
            try:
                batch = self._read_batch(insert.data, "the upload", format=insert.format)
                yield _CheckedInsert(self.channel, batch, (n,), insert.key)
            except TidemillError as error:
                self.answers[n] = error

    def check_messages(self, fresh: Mapping[int, push.PushMessage]) -> list[_CheckedInsert]:
        """Validate all messages as one batch, which is the cheapest; if that fails, validate each separately."""
        if not fresh:
            return []
        try:
            data = b"\n".join(message.data for message in fresh.values())
            batch = self._read_batch(data, "the pushed messages", latest=True)
        except BadInput:
            return list(self._check_each(fresh))
        return [_CheckedInsert(self.channel, batch, tuple(fresh), advances=push.compute_advances(fresh.values()))]

    def _check_each(self, fresh: Mapping[int, push.PushMessage]) -> Iterator[_CheckedInsert]:
        refused: set[str] = set()  # producers whose later messages are refused
        for n, message in fresh.items():
            try:
                if message.producer in refused:
                    problem = f"message {message.number} was refused: an earlier one was refused"
                    raise push.OutOfOrder(f"{problem}; send it after that one")
                batch = self._read_batch(message.data, f"message {message.number}", latest=True)
                yield _CheckedInsert(self.channel, batch, (n,), advances=push.compute_advances([message]))
            except BadInput as error:
                self.answers[n] = error
                refused.add(message.producer)

    def _read_batch(self, data: bytes, name: str, *, format: str = "jsonl", latest: bool = False) -> InsertBatch:
        updates = self.channel.updates
        return self.loader.read_batch(data, name, format=format, schema=self.schema, updates=updates, latest=latest)


@dataclass(frozen=True, slots=True)
class InsertBatcher:
    """Inserts small files and messages for many callers."""

    inserter: Inserter
    loader: InsertBatchLoader

    def insert_all(self, insert_requests: Sequence[InsertRequest]) -> list[InsertAnswer]:
        """Insert all requests, those of one channel in order. An invalid request does not affect the others.

        But a producer's messages are accepted in the order of their numbers: none is accepted after one that failed.
        """
        answers: dict[int, InsertAnswer] = {}
        pending: list[_CheckedInsert] = []
        duplicates: dict[int, int] = {}
        for channel in dict.fromkeys(request.channel for request in insert_requests):
            requests = {n: request for n, request in enumerate(insert_requests) if request.channel == channel}
            try:
                pending += self._check_channel(channel, requests, answers, duplicates)
            except TidemillError as error:
                answers |= dict.fromkeys(requests, error)
        while pending:
            group, pending = _split_group(pending)
            answers |= self._insert_group(group)
        answers |= {n: answers[first] for n, first in duplicates.items()}
        return [answers[n] for n in range(len(insert_requests))]

    def _check_channel(
        self,
        name: str,
        requests: Mapping[int, InsertRequest],
        answers: dict[int, InsertAnswer],
        duplicates: dict[int, int],
    ) -> list[_CheckedInsert]:
        validator = _ChannelValidator(*self.inserter.get_input_channel(name), self.loader, answers)
        messages = {n: request for n, request in requests.items() if isinstance(request, push.PushMessage)}
        producers = {message.producer for message in messages.values()}
        channels = self.inserter.executor.catalog.channels
        sequences = channels.read_producer_sequences(name, producers) if producers else {}
        classification = push.classify_messages(messages, sequences)
        answers |= classification.answers
        duplicates |= classification.duplicates
        small = {n: request for n, request in requests.items() if isinstance(request, SmallInsert)}
        return [*validator.check_inserts(small), *validator.check_messages(classification.new)]

    def _insert_group(self, group: Sequence[_CheckedInsert]) -> dict[int, InsertAnswer]:
        try:
            return self._insert_block(group)
        except (Conflict, InsertInProgress) as error:  # another server uses one of the keys: insert each separately
            if len(group) > 1:
                return {n: answer for insert in group for n, answer in self._insert_group([insert]).items()}
            if isinstance(error, DuplicateKey):  # inserted meanwhile: its block exists now
                return self._insert_group(group)
            return dict.fromkeys(group[0].positions, error)
        except TidemillError as error:
            return {n: error for insert in group for n in insert.positions}

    def _insert_block(self, group: Sequence[_CheckedInsert]) -> dict[int, InsertAnswer]:
        channel = group[0].channel.name
        keys = [insert.key for insert in group if insert.key is not None]
        earlier_blocks = self.inserter.executor.catalog.blocks.find_inserted(channel, keys) if keys else {}
        new_inserts = [insert for insert in group if insert.key not in earlier_blocks]

        def fill_block(_to: Channel, _schema: Schema, directory: str, _tag: str) -> tuple[str, int]:
            batches = [insert.batch for insert in new_inserts]
            self.loader.write_batches(batches, Path(directory))
            return " ".join(batch.digest for batch in batches), sum(batch.rows for batch in batches)

        new_keys = tuple(key for key in keys if key not in earlier_blocks)
        advances = push.merge_advances(advance for insert in new_inserts for advance in insert.advances)
        block = None
        if new_inserts:
            block = self.inserter.insert_block(channel, BlockKind.DELTA, new_keys, fill_block, advances)
        return _build_answers(group, earlier_blocks, block)


def _build_answers(
    group: Sequence[_CheckedInsert], earlier_blocks: Mapping[str, Block], new_block: Block | None
) -> dict[int, InsertAnswer]:
    answers: dict[int, InsertAnswer] = {}
    for insert in group:
        earlier = None if insert.key is None else earlier_blocks.get(insert.key)
        block = earlier or new_block
        assert block is not None  # an insert without an earlier block is in the new one
        answers |= dict.fromkeys(insert.positions, InsertResult(block, repeated=earlier is not None))
    return answers


def _split_group(pending: Sequence[_CheckedInsert]) -> tuple[list[_CheckedInsert], list[_CheckedInsert]]:
    """Split off the first pending insert with those that can share its block; a channel's inserts stay in order."""
    group, rest = list(pending[:1]), list[_CheckedInsert]()
    for insert in pending[1:]:
        overtakes = any(other.channel == insert.channel for other in rest)
        can_join = not overtakes and insert.can_join(group)
        (group if can_join else rest).append(insert)
    return group, rest
