"""Drives a catalog through whole runs, so that tests say only what they are about."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tidemill.catalog import SqlCatalog
from tidemill.model.block import Block, File, Kind
from tidemill.model.channel import Channel, Role
from tidemill.model.flow import Binding
from tidemill.model.identity import identity
from tidemill.model.provenance import NOTHING, Provenance
from tidemill.model.run import (
    Claim,
    Consumption,
    Demand,
    Filled,
    Outcome,
    RunKind,
    Slot,
    WantSlot,
    demand_of,
)
from tidemill.model.schema import Schema
from tidemill.model.store import Grace
from tidemill.model.task import Mode, Read, Sql, Task, Variant, Write
from tidemill.model.workflow import Workflow

SCHEMA = Schema.parse("x int")
LEASE = 60.0


class FakeClock:
    """Stands still unless told otherwise."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


def task(name: str, reads: dict[str, Mode], writes: dict[str, Kind]) -> Task:
    variant = Variant(
        "only",
        tuple(Read(channel, channel, mode) for channel, mode in reads.items()),
        tuple(Write(channel, channel, kind) for channel, kind in writes.items()),
        Sql("SELECT 1"),
    )
    return Task(name, (variant,))


AT_ONCE = Grace(0.0, 0.0)

COPY = Binding("copy", (task("copying", {"a": Mode.NEW, "b": Mode.ALL}, {"d": Kind.DELTA}),))
CHANNELS = (
    Channel("a", Role.INPUT, SCHEMA),
    Channel("b", Role.INPUT, SCHEMA),
    Channel("d", Role.DERIVED),
)
WORKFLOW = Workflow("w", CHANNELS, (COPY,))


@dataclass
class Driver:
    """A catalog with `WORKFLOW` applied, and its clock."""

    catalog: SqlCatalog
    clock: FakeClock

    def request(self, kind: RunKind = RunKind.INSERT, subject: str = "a", attempts: int = 1) -> int:
        return self.catalog.request(kind, subject, attempts=attempts).id

    def claim(self, run: int, demand: Demand, owner: str = "me", lease: float = LEASE) -> Claim:
        return self.catalog.claim(run, demand, owner=owner, lease=lease)

    def open_insert(
        self, channel: str = "a", key: str | None = None, kind: Kind = Kind.DELTA, attempts: int = 1
    ) -> Claim:
        run = self.request(RunKind.INSERT, channel, attempts)
        return self.claim(run, inserting(channel, key, kind))

    def open_flow(self, binding: Binding = COPY, attempts: int = 1) -> Claim:
        return self.claim(self.request(RunKind.FLOW, binding.name, attempts), demand_of(binding))

    def open_compaction(self, channel: str = "a") -> Claim:
        return self.claim(self.request(RunKind.COMPACTION, channel), Demand())

    def insert(self, channel: str = "a", key: str | None = None, kind: Kind = Kind.DELTA) -> Block:
        return self.commit(self.open_insert(channel, key, kind))[0]

    def run_flow_with(self, ddl: str) -> Block:
        """Run the flow; what it writes has another schema."""
        claim = self.open_flow()
        (slot,) = claim.slots.values()
        made = (filled(claim, slot, Schema.parse(ddl)),)
        return self.catalog.commit(claim, Outcome(made, tuple(moves_of(claim))))[0]

    def commit(self, claim: Claim, moves: Iterable[Consumption] = (), log: str = "") -> list[Block]:
        return self.catalog.commit(claim, outcome(claim, moves, log))

    def run_flow(self, binding: Binding = COPY) -> list[Block]:
        claim = self.open_flow(binding)
        return self.commit(claim, moves_of(claim, binding))

    def compact(self, channel: str, seq: int, files: Sequence[File] | None = None) -> Block:
        claim = self.open_compaction(channel)
        return self.catalog.compacted(claim, base(claim, channel, seq, files))

    def fold(self, channel: str, since: int, seq: int) -> Block:
        claim = self.open_compaction(channel)
        return self.catalog.compacted(claim, fold(claim, channel, since, seq))

    def purge(self) -> list[str]:
        """Purge, and remove what is marked at once, of which there are no real files; returns what was purged."""
        purged = self.catalog.purge()
        self.catalog.finish_removals([r.path for r in self.catalog.list_due_removals(AT_ONCE, 10_000)])
        return purged

    def head(self, channel: str = "a") -> int:
        return self.catalog.channel(channel).head.seq

    def seqs(self, channel: str = "a") -> list[int]:
        """What a reader at the very end sees."""
        return [block.seq for block in self.catalog.base_and_after(channel, at=10**9)]

    def kinds_of_events(self, run: int | None = None) -> list[str]:
        return [event.kind for event in self.catalog.events(run=run, limit=10_000)]


def inserting(channel: str = "a", key: str | None = None, kind: Kind = Kind.DELTA) -> Demand:
    return Demand(slots=(WantSlot(None, channel, kind, () if key is None else (key,)),))


def file_of(claim: Claim, slot: Slot) -> File:
    return File(f"{claim.directory}/{slot.channel}/{slot.seq}.parquet", rows=2, bytes=10)


def filled(claim: Claim, slot: Slot, schema: Schema = SCHEMA) -> Filled:
    seen = Provenance.of({(channel,): [span.upto.seq] for (_, channel), span in claim.spans.items()})
    return Filled(slot, schema, (file_of(claim, slot),), identity(claim.directory, slot.seq), NOTHING, seen)


def outcome(claim: Claim, moves: Iterable[Consumption] = (), log: str = "") -> Outcome:
    return Outcome(tuple(filled(claim, slot) for slot in claim.slots.values()), tuple(moves), {"seconds": 1}, log)


def moves_of(claim: Claim, binding: Binding = COPY) -> list[Consumption]:
    new = {(t.name, r.port) for t in binding.tasks for r in t.reads if r.mode is Mode.NEW}
    return [Consumption(*at, span.since.seq if at in new else None, span.upto) for at, span in claim.spans.items()]


def base(claim: Claim, channel: str, seq: int, files: Sequence[File] | None = None) -> Block:
    own = (File(f"{claim.directory}/base.parquet", rows=4, bytes=20),)
    return Block(0, channel, seq, Kind.BASE, SCHEMA, files=tuple(own if files is None else files))


def fold(
    claim: Claim, channel: str, since: int, seq: int, source: Provenance = NOTHING, files: Sequence[File] | None = None
) -> Block:
    own = (File(f"{claim.directory}/fold.parquet", rows=4, bytes=20),)
    made = tuple(own if files is None else files)
    return Block(0, channel, seq, Kind.DELTA, SCHEMA, since, files=made, source=source, identity=identity(since, seq))
