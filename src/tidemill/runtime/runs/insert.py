"""Inserts blocks into input channels, from files or from frames of the engine."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from tidemill.errors import BadInput, CatalogError, Conflict, DuplicateKey, InsertInProgress
from tidemill.model.block import Block, BlockKind
from tidemill.model.channel import Channel, ChannelRole
from tidemill.model.identity import compute_identity
from tidemill.model.run import (
    FILE_PRODUCER_PREFIX,
    ClaimRequest,
    ProducerAdvance,
    ReservationRequest,
    RunClaim,
    RunKind,
    RunOutcome,
    RunState,
    WrittenBlock,
)
from tidemill.model.schema import Schema
from tidemill.ports.engine import Progress, WriteTarget
from tidemill.ports.storage import Loader, LoadRequest
from tidemill.runtime.runs.execution import Executor
from tidemill.runtime.runs.flow import format_directory, format_tag
from tidemill.runtime.runs.leases import Lease
from tidemill.runtime.runs.log import RunLog

POLL_SECONDS = 0.2
"""Seconds between polls of an insert that is running in another process."""

BlockWriter = Callable[[Channel, Schema, str, str], tuple[str, int | None]]
"""Writes the block's files into a directory, under a tag; returns the content's identity, and its row count."""


@dataclass(frozen=True, slots=True)
class InsertResult:
    """The block with the inserted rows; `repeated` if an earlier insert with this key wrote it."""

    block: Block
    repeated: bool


@dataclass(frozen=True, slots=True)
class Inserter:
    """Inserts data into input channels: all rows of a file or frame, or none."""

    executor: Executor
    load: Loader

    def insert_file(
        self,
        channel: str,
        path: Path,
        *,
        format: str | None = None,
        kind: BlockKind = BlockKind.DELTA,
        key: str | None = None,
        progress: Progress | None = None,
    ) -> InsertResult:
        def fill_block(to: Channel, schema: Schema, directory: str, _tag: str) -> tuple[str, int | None]:
            loaded = self.load(path, LoadRequest(schema, to.updates, Path(directory), kind, format, progress))
            return loaded.digest, loaded.rows

        return self._insert_with_key(channel, kind, key, fill_block)

    def insert_once(self, channel: str, path: Path, digest: str, *, format: str | None = None) -> Block | None:
        """Insert a file unless its content, with this SHA-256, was inserted before; None if it was.

        Unlike an idempotency key, the digest stays known after the block has expired.
        """
        producer = f"{FILE_PRODUCER_PREFIX}{digest}"

        def fill_block(to: Channel, schema: Schema, directory: str, _tag: str) -> tuple[str, int | None]:
            loaded = self.load(path, LoadRequest(schema, to.updates, Path(directory), format=format))
            if loaded.digest != digest:
                raise BadInput(f"{path} changed while it was read; write files elsewhere and move complete files here")
            return digest, loaded.rows

        def is_inserted() -> bool:
            return self.executor.catalog.channels.read_producer_sequences(channel, [producer])[producer] > 0

        if is_inserted():
            return None
        try:
            advance = ProducerAdvance(channel, producer, 0, 1)
            return self.insert_block(channel, BlockKind.DELTA, (), fill_block, (advance,))
        except Conflict:
            if is_inserted():  # another server was faster
                return None
            raise

    def insert_frame(
        self, channel: str, frame: Any, *, kind: BlockKind = BlockKind.DELTA, key: str | None = None
    ) -> InsertResult:
        def fill_block(to: Channel, schema: Schema, directory: str, tag: str) -> tuple[str, int | None]:
            target = WriteTarget(to.name, kind, directory, schema, to.updates)
            self.executor.engine.write_frame(frame, target, tag=tag)
            return uuid4().hex, target.receipt.rows

        return self._insert_with_key(channel, kind, key, fill_block)

    def _insert_with_key(self, channel: str, kind: BlockKind, key: str | None, fill: BlockWriter) -> InsertResult:
        if key is None:
            return InsertResult(self.insert_block(channel, kind, (), fill), repeated=False)
        deadline = time.monotonic() + self.executor.busy_timeout
        while True:
            block = self.executor.catalog.blocks.find_inserted(channel, [key]).get(key)
            if block is not None:
                return InsertResult(block, repeated=True)
            try:
                return InsertResult(self.insert_block(channel, kind, (key,), fill), repeated=False)
            except DuplicateKey:  # by an insert that committed meanwhile
                continue
            except InsertInProgress:
                if time.monotonic() > deadline:
                    raise
                self.executor.sleep(POLL_SECONDS)
                self.executor.catalog.runs.reclaim_expired()  # its process may have died

    def get_input_channel(self, name: str) -> tuple[Channel, Schema]:
        """Return an input channel, and the schema that inserted rows must have.

        Raises `QuotaExceeded` if its workflow stores more than its quota.
        """
        registered = self.executor.catalog.channels.read(name)
        channel = registered.channel
        if channel.role is not ChannelRole.INPUT or channel.schema is None:
            raise BadInput(f"channel {name} is derived: its tasks write it; insert into the input channels they read")
        self.executor.check_storage(registered.workflow)
        return channel, channel.schema

    def insert_block(
        self,
        name: str,
        kind: BlockKind,
        keys: tuple[str, ...],
        fill: BlockWriter,
        advanced: tuple[ProducerAdvance, ...] = (),
    ) -> Block:
        """Insert one block with the files that `fill` writes.

        Raises `DuplicateKey` if an earlier insert used one of the keys, `InsertInProgress` if a running one may use it,
        and `Conflict` if a producer of `advanced` is no longer at its expected sequence number.
        """
        channel, schema = self.get_input_channel(name)

        def commit(claim: RunClaim, log: RunLog, _lease: Lease) -> list[Block]:
            reservation = claim.reservations[None, name]
            directory = format_directory(claim, reservation.block)
            digest, rows = fill(channel, schema, self.executor.store.stage_directory(directory), format_tag(claim.run))
            files = self.executor.store.publish_files(directory, rows)
            log.write_line(f"{sum(f.rows for f in files)} rows into {name}")
            output = WrittenBlock(reservation, schema, files, compute_identity("insert", name, digest))
            outcome = RunOutcome((output,), log=log.text, producer_advances=advanced)
            return self.executor.catalog.runs.commit(claim, outcome)

        request = ClaimRequest(reservations=(ReservationRequest(None, name, kind, keys, expected_channel=channel),))
        claim = self.executor.begin_run(RunKind.INSERT, name, request)
        try:
            return self.executor.run_once(claim, commit)[0]
        except CatalogError:
            if self.executor.catalog.runs.read(claim.run.id).state is RunState.FINISHED:  # only the answer was lost
                return self.executor.catalog.blocks.list_written(claim.run.id)[0]
            raise
