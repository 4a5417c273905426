"""Drives a catalog through complete runs, so that tests contain only what they test."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tidemill.catalog import SqlCatalog
from tidemill.model.block import Block, BlockKind, DataFile
from tidemill.model.channel import Channel, ChannelRole
from tidemill.model.flow import BoundFlow
from tidemill.model.identity import compute_identity
from tidemill.model.provenance import EMPTY_PROVENANCE, Provenance
from tidemill.model.run import (
    ClaimRequest,
    Consumption,
    Reservation,
    ReservationRequest,
    RunClaim,
    RunKind,
    RunOutcome,
    WrittenBlock,
    build_claim_request,
)
from tidemill.model.schema import Schema
from tidemill.model.store import GracePeriods
from tidemill.model.task import ReadMode, Sql, Task, TaskInput, TaskOutput, Variant
from tidemill.model.workflow import WorkflowSpec

SCHEMA = Schema.from_ddl("x int")
LEASE = 60.0


class FakeClock:
    """A clock that advances only when the test sets it."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


def task(name: str, reads: dict[str, ReadMode], writes: dict[str, BlockKind]) -> Task:
    variant = Variant(
        "only",
        tuple(TaskInput(channel, channel, mode) for channel, mode in reads.items()),
        tuple(TaskOutput(channel, channel, kind) for channel, kind in writes.items()),
        Sql("SELECT 1"),
    )
    return Task(name, (variant,))


AT_ONCE = GracePeriods(0.0, 0.0)

COPY = BoundFlow("copy", (task("copying", {"a": ReadMode.NEW, "b": ReadMode.ALL}, {"d": BlockKind.DELTA}),))
CHANNELS = (
    Channel("a", ChannelRole.INPUT, SCHEMA),
    Channel("b", ChannelRole.INPUT, SCHEMA),
    Channel("d", ChannelRole.DERIVED),
)
WORKFLOW = WorkflowSpec("w", CHANNELS, (COPY,))


@dataclass
class Driver:
    """A catalog with `WORKFLOW` applied, and its clock."""

    catalog: SqlCatalog
    clock: FakeClock

    def request(self, kind: RunKind = RunKind.INSERT, subject: str = "a", attempts: int = 1) -> int:
        return self.catalog.runs.request(kind, subject, attempts=attempts).id

    def claim(self, run: int, request: ClaimRequest, owner: str = "me", lease: float = LEASE) -> RunClaim:
        return self.catalog.runs.claim(run, request, owner=owner, lease=lease)

    def open_insert(
        self, channel: str = "a", key: str | None = None, kind: BlockKind = BlockKind.DELTA, attempts: int = 1
    ) -> RunClaim:
        run = self.request(RunKind.INSERT, channel, attempts)
        return self.claim(run, build_insert_request(channel, key, kind))

    def open_flow(self, binding: BoundFlow = COPY, attempts: int = 1) -> RunClaim:
        return self.claim(self.request(RunKind.FLOW, binding.name, attempts), build_claim_request(binding))

    def open_compaction(self, channel: str = "a") -> RunClaim:
        return self.claim(self.request(RunKind.COMPACTION, channel), ClaimRequest())

    def insert(self, channel: str = "a", key: str | None = None, kind: BlockKind = BlockKind.DELTA) -> Block:
        return self.commit(self.open_insert(channel, key, kind))[0]

    def run_flow_with(self, ddl: str) -> Block:
        """Run the flow; the block that it writes has another schema."""
        claim = self.open_flow()
        (reservation,) = claim.reservations.values()
        blocks = (build_written_block(claim, reservation, Schema.from_ddl(ddl)),)
        return self.catalog.runs.commit(claim, RunOutcome(blocks, tuple(moves_of(claim))))[0]

    def commit(self, claim: RunClaim, moves: Iterable[Consumption] = (), log: str = "") -> list[Block]:
        return self.catalog.runs.commit(claim, build_outcome(claim, moves, log))

    def run_flow(self, binding: BoundFlow = COPY) -> list[Block]:
        claim = self.open_flow(binding)
        return self.commit(claim, moves_of(claim, binding))

    def compact(self, channel: str, seq: int, files: Sequence[DataFile] | None = None) -> Block:
        claim = self.open_compaction(channel)
        return self.catalog.runs.commit_compaction(claim, build_base(claim, channel, seq, files))

    def compact_minor(self, channel: str, since: int, seq: int) -> Block:
        claim = self.open_compaction(channel)
        return self.catalog.runs.commit_compaction(claim, build_minor_block(claim, channel, since, seq))

    def purge(self) -> list[str]:
        """Purge blocks and finish the removal of their files, which do not exist; returns the purged paths."""
        purged = self.catalog.blocks.purge()
        self.catalog.files.finish_removals([r.path for r in self.catalog.files.list_due_removals(AT_ONCE, 10_000)])
        return purged

    def head(self, channel: str = "a") -> int:
        return self.catalog.channels.read(channel).head.seq

    def seqs(self, channel: str = "a") -> list[int]:
        """The blocks that a reader of the newest content sees."""
        return [block.seq for block in self.catalog.blocks.read_base_and_deltas(channel, at=10**9)]

    def kinds_of_events(self, run: int | None = None) -> list[str]:
        return [event.kind for event in self.catalog.events.list(run=run, limit=10_000)]


def build_insert_request(channel: str = "a", key: str | None = None, kind: BlockKind = BlockKind.DELTA) -> ClaimRequest:
    return ClaimRequest(reservations=(ReservationRequest(None, channel, kind, () if key is None else (key,)),))


def file_of(claim: RunClaim, reservation: Reservation) -> DataFile:
    return DataFile(f"{claim.directory}/{reservation.channel}/{reservation.seq}.parquet", rows=2, bytes=10)


def build_written_block(claim: RunClaim, reservation: Reservation, schema: Schema = SCHEMA) -> WrittenBlock:
    target = Provenance.from_pathways({(channel,): [span.upto.seq] for (_, channel), span in claim.spans.items()})
    return WrittenBlock(
        reservation,
        schema,
        (file_of(claim, reservation),),
        compute_identity(claim.directory, reservation.seq),
        EMPTY_PROVENANCE,
        target,
    )


def build_outcome(claim: RunClaim, moves: Iterable[Consumption] = (), log: str = "") -> RunOutcome:
    return RunOutcome(
        tuple(build_written_block(claim, reservation) for reservation in claim.reservations.values()),
        tuple(moves),
        {"seconds": 1},
        log,
    )


def moves_of(claim: RunClaim, binding: BoundFlow = COPY) -> list[Consumption]:
    new = {(t.name, r.port) for t in binding.tasks for r in t.reads if r.mode is ReadMode.NEW}
    return [
        Consumption(*port, span.since.seq if port in new else None, span.upto) for port, span in claim.spans.items()
    ]


def build_base(claim: RunClaim, channel: str, seq: int, files: Sequence[DataFile] | None = None) -> Block:
    default_files = (DataFile(f"{claim.directory}/base.parquet", rows=4, bytes=20),)
    return Block(0, channel, seq, BlockKind.BASE, SCHEMA, files=tuple(default_files if files is None else files))


def build_minor_block(
    claim: RunClaim,
    channel: str,
    since: int,
    seq: int,
    source: Provenance = EMPTY_PROVENANCE,
    files: Sequence[DataFile] | None = None,
) -> Block:
    default_files = (DataFile(f"{claim.directory}/minor.parquet", rows=4, bytes=20),)
    block_files = tuple(default_files if files is None else files)
    return Block(
        0,
        channel,
        seq,
        BlockKind.DELTA,
        SCHEMA,
        since,
        files=block_files,
        source=source,
        identity=compute_identity(since, seq),
    )
