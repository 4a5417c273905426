"""Inserting blocks into input channels: from files, or from frames of the engine's."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from tidemill.errors import BadInput, CatalogError, Conflict, InsertUnderWay, KeyUsed
from tidemill.model.block import Block, Kind
from tidemill.model.channel import Channel, Role
from tidemill.model.identity import identity
from tidemill.model.run import CONTENT, Advance, Claim, Demand, Filled, Outcome, RunKind, RunState, WantSlot
from tidemill.model.schema import Schema
from tidemill.ports.engine import Progress, Target
from tidemill.ports.storage import Loader
from tidemill.runtime.runs.execution import Executor
from tidemill.runtime.runs.flow import directory_of, tag_of
from tidemill.runtime.runs.lease import Lease
from tidemill.runtime.runs.log import RunLog

LOOK = 0.2
"""Seconds between looks at what becomes of an insert that is under way elsewhere."""

Fill = Callable[[Channel, Schema, str, str], tuple[str, int | None]]
"""Writes the block's files into a directory, under a tag; returns the identity of what was written, and its rows."""


@dataclass(frozen=True, slots=True)
class Inserted:
    """The block that holds the inserted rows; `repeated` if an earlier insert with this key had made it."""

    block: Block
    repeated: bool


@dataclass(frozen=True, slots=True)
class Inserter:
    """Puts data into input channels: all rows of a file or frame, or none."""

    executor: Executor
    load: Loader

    def file(
        self,
        channel: str,
        path: Path,
        *,
        format: str | None = None,
        kind: Kind = Kind.DELTA,
        key: str | None = None,
        progress: Progress | None = None,
    ) -> Inserted:
        def fill(to: Channel, schema: Schema, directory: str, _tag: str) -> tuple[str, int | None]:
            loaded = self.load(
                path,
                format=format,
                schema=schema,
                updates=to.updates,
                kind=kind,
                directory=Path(directory),
                progress=progress,
            )
            return loaded.digest, loaded.rows

        return self._once(channel, kind, key, fill)

    def once(self, channel: str, path: Path, digest: str, *, format: str | None = None) -> Block | None:
        """Insert a file unless its content, which has this SHA-256, ever was; None if it was.

        Unlike an insert key this is remembered when the block is long forgotten.
        """
        producer = f"{CONTENT}{digest}"

        def fill(to: Channel, schema: Schema, directory: str, _tag: str) -> tuple[str, int | None]:
            loaded = self.load(
                path,
                format=format,
                schema=schema,
                updates=to.updates,
                kind=Kind.DELTA,
                directory=Path(directory),
                progress=None,
            )
            if loaded.digest != digest:
                raise BadInput(f"{path} changed while it was read; write files elsewhere and move them here whole")
            return digest, loaded.rows

        def was() -> bool:
            return self.executor.catalog.producers(channel, [producer])[producer] > 0

        if was():
            return None
        try:
            return self.insert(channel, Kind.DELTA, (), fill, (Advance(channel, producer, 0, 1),))
        except Conflict:
            if was():  # another server was faster
                return None
            raise

    def frame(self, channel: str, frame: Any, *, kind: Kind = Kind.DELTA, key: str | None = None) -> Inserted:
        def fill(to: Channel, schema: Schema, directory: str, tag: str) -> tuple[str, int | None]:
            target = Target(to.name, kind, directory, schema, to.updates)
            self.executor.engine.write(frame, target, tag=tag)
            return uuid4().hex, target.receipt.rows

        return self._once(channel, kind, key, fill)

    def _once(self, channel: str, kind: Kind, key: str | None, fill: Fill) -> Inserted:
        if key is None:
            return Inserted(self.insert(channel, kind, (), fill), repeated=False)
        deadline = time.monotonic() + self.executor.busy
        while True:
            found = self.executor.catalog.inserted(channel, [key]).get(key)
            if found is not None:
                return Inserted(found, repeated=True)
            try:
                return Inserted(self.insert(channel, kind, (key,), fill), repeated=False)
            except KeyUsed:  # meanwhile
                continue
            except InsertUnderWay:
                if time.monotonic() > deadline:
                    raise
                self.executor.sleep(LOOK)
                self.executor.catalog.reclaim()  # its process may have died

    def fed(self, name: str) -> tuple[Channel, Schema]:
        """An input channel, and the schema that what is inserted must have."""
        channel = self.executor.catalog.channel(name).channel
        if channel.role is not Role.INPUT or channel.schema is None:
            raise BadInput(f"channel {name} is derived: its tasks write it; insert into the input channels they read")
        return channel, channel.schema

    def insert(
        self, name: str, kind: Kind, keys: tuple[str, ...], fill: Fill, advanced: tuple[Advance, ...] = ()
    ) -> Block:
        """Make a block of what `fill` writes.

        Raises `KeyUsed` if an insert had one of the keys already, `InsertUnderWay` if one may get it yet, and
        `Conflict` if a producer of `advanced` is no longer where it was.
        """
        channel, schema = self.fed(name)

        def commit(claim: Claim, log: RunLog, _lease: Lease) -> list[Block]:
            slot = claim.slots[None, name]
            directory = directory_of(claim, slot.block)
            digest, rows = fill(channel, schema, self.executor.store.stage(directory), tag_of(claim.run))
            files = self.executor.store.publish(directory, rows)
            log.say(f"{sum(f.rows for f in files)} rows into {name}")
            filled = Filled(slot, schema, files, identity("insert", name, digest))
            return self.executor.catalog.commit(claim, Outcome((filled,), log=log.text, advanced=advanced))

        demand = Demand(slots=(WantSlot(None, name, kind, keys, made_for=channel),))
        claim = self.executor.begin(RunKind.INSERT, name, demand)
        try:
            return self.executor.once(claim, commit)[0]
        except CatalogError:
            if self.executor.catalog.run(claim.run.id).state is RunState.FINISHED:  # only the answer was lost
                return self.executor.catalog.written(claim.run.id)[0]
            raise
