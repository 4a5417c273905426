"""Runs: atomic executions, their inputs and their outputs."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from tidemill.model.block import Block, BlockKind, ChannelPosition, DataFile
from tidemill.model.change import Updates
from tidemill.model.channel import Channel
from tidemill.model.description import compute_dataset_identity, describe_output
from tidemill.model.flow import BoundFlow
from tidemill.model.identity import Identity, compute_identity
from tidemill.model.provenance import EMPTY_PROVENANCE, Provenance, merge_provenances
from tidemill.model.schema import Schema
from tidemill.model.task import ReadMode, Task
from tidemill.model.time import Version


class RunState(StrEnum):
    WAITING = "waiting"  # for `not_before` to pass; without one, for outputs of other runs
    READY = "ready"  # any server may claim it
    CLAIMED = "claimed"  # a server holds its lease and prepares it
    SUBMITTED = "submitted"  # passed to the engine, under a lease; its reservations are made
    RUNNING = "running"  # the engine has started it
    FINISHED = "finished"
    FAILED = "failed"
    KILLED = "killed"


PENDING_STATES = (RunState.WAITING, RunState.READY)
ACTIVE_STATES = (RunState.CLAIMED, RunState.SUBMITTED, RunState.RUNNING)
EXECUTING_STATES = (RunState.SUBMITTED, RunState.RUNNING)
"""Active states in which the run's reservations and read spans are fixed."""


class RunKind(StrEnum):
    FLOW = "flow"
    INSERT = "insert"
    COMPACTION = "compaction"
    ACTION = "action"  # of a one-shot workflow: it produces one dataset


MAX_LOST_ATTEMPTS = 3
"""Attempts of a run that may be lost without a fault of its tasks: its server dies, or loses its connections."""

OWNER_EXECUTED_KINDS = (RunKind.INSERT, RunKind.COMPACTION)
"""Runs that only the process that created them can execute, since it alone has their data."""


BACKFILL_TAG_PREFIX = "tidemill-backfill"
"""The prefix of the engine's tags of backfills, by which other runs get precedence."""


@dataclass(frozen=True, slots=True)
class StepReport:
    """Where a step of a task ran and why; the rows and bytes that the driver then held, None if it held none."""

    step: str
    place: str
    reason: str
    seconds: float
    rows: int | None = None
    bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Run:
    """One atomic execution. `fencing_token` changes with every claim; only its holder can commit."""

    id: int
    kind: RunKind
    subject: str  # the bound flow; the channel inserted into or compacted; workflow/action
    state: RunState
    attempt: int
    fencing_token: int
    created: float
    owner: str | None = None  # the process that executes it: a server's worker is called SERVER/NUMBER
    lease_until: float | None = None
    not_before: float | None = None
    started: float | None = None
    finished: float | None = None
    error: str | None = None
    stats: Mapping[str, Any] = field(default_factory=dict)
    backfill: bool = False  # it loads history, and live tables never wait for it
    due: float | None = None  # since when, if not since its creation: the waiting data may be older
    requested: float | None = None  # time of the last repeated request, if any: it will read all data up to that time
    lost_attempts: int = 0  # attempts that ended without a fault of the tasks

    @property
    def server(self) -> str | None:
        """The server that executes it, or another process."""
        return None if self.owner is None else self.owner.partition("/")[0]

    def list_steps(self) -> dict[str, list[StepReport]]:
        """Where the steps of each task ran; empty before the run has finished."""
        tasks = self.stats.get("tasks", {})
        return {name: [StepReport(**step) for step in stats.get("steps", ())] for name, stats in tasks.items()}


@dataclass(frozen=True, slots=True)
class ReadRequest:
    """A read of a channel by a task of the run; `cursor` if it continues from the task's last run."""

    task: str
    channel: str
    cursor: bool
    upto: int | None = None  # a sequence number; None: the latest
    requires_cursor: bool = False  # the cursor must exist, since the task writes a change of its previous output


@dataclass(frozen=True, slots=True)
class ReservationRequest:
    """A request of a task or an insert for a reservation on a channel. A repeated idempotency key finds the first."""

    task: str | None
    channel: str
    kind: BlockKind
    keys: tuple[str, ...] = ()  # idempotency keys of the inserts that share it
    updates: Updates | None = None  # encoding of a delta, if not the channel's
    expected_channel: Channel | None = None  # as it was when the rows were read, if that was before the claim


@dataclass(frozen=True, slots=True)
class ClaimRequest:
    """The reservations and reads that a run needs when it is claimed.

    `intermediate_channels` are channels that the run both writes and reads: no other run may hold an earlier
    reservation there. `task_identities` are the identities of the tasks as the claiming server has loaded them: a claim
    is rejected if others are registered, and the run's cursors count for these identities only.
    """

    reservations: tuple[ReservationRequest, ...] = ()
    reads: tuple[ReadRequest, ...] = ()
    intermediate_channels: frozenset[str] = frozenset()
    task_identities: Mapping[str, Identity] = field(default_factory=dict)


def build_claim_request(binding: BoundFlow, upto: Mapping[tuple[str, str], int] = MappingProxyType({})) -> ClaimRequest:
    """One read per task and channel, up to `upto` or else the latest block, with a cursor if any mode needs one."""
    reads: dict[tuple[str, str], bool] = {}
    cursor_required: set[tuple[str, str]] = set()
    for task in binding.tasks:
        for read in task.reads:
            key = (task.name, read.port)
            reads[key] = reads.get(key, False) or read.mode is not ReadMode.ALL or read.advance
            if task.refresh is not None and read.mode is not ReadMode.ALL:
                cursor_required.add(key)
    return ClaimRequest(
        reservations=tuple(
            ReservationRequest(t.name, w.port, w.kind, updates=w.updates) for t in binding.tasks for w in t.writes
        ),
        reads=tuple(ReadRequest(*key, cursor, upto.get(key), key in cursor_required) for key, cursor in reads.items()),
        intermediate_channels=binding.intermediate_channels,
        task_identities={t.name: t.compute_identity() for t in binding.tasks},
    )


@dataclass(frozen=True, slots=True)
class Reservation:
    """A reserved sequence number on a channel, held by a run for one output of one task."""

    block: int
    channel: str
    seq: int
    kind: BlockKind
    task: str | None = None
    updates: Updates | None = None


@dataclass(frozen=True, slots=True)
class ReadSpan:
    """The part of a channel that a task consumes: everything up to `upto`; `since` is where its last run ended."""

    since: ChannelPosition
    upto: ChannelPosition


@dataclass(frozen=True, slots=True)
class RunClaim:
    """The right to execute a run: its fencing token, its reservations, and the spans that it consumes.

    `reservations` and `spans` are keyed by (task name, channel name). On a channel that the run itself writes
    before it reads, the span ends at the position before the run's reservation.
    """

    run: Run
    directory: str  # relative to the store's root; no other attempt ever uses it
    reservations: Mapping[tuple[str | None, str], Reservation]
    spans: Mapping[tuple[str, str], ReadSpan]
    task_identities: Mapping[str, Identity] = field(default_factory=dict)  # identities of the tasks it was claimed for


@dataclass(frozen=True, slots=True)
class WrittenBlock:
    """The block that a run writes for a reservation."""

    reservation: Reservation
    schema: Schema
    files: tuple[DataFile, ...]
    identity: Identity
    source: Provenance = EMPTY_PROVENANCE
    target: Provenance = EMPTY_PROVENANCE
    watermark: Version | None = None  # the watermark in event time, if known


@dataclass(frozen=True, slots=True)
class Consumption:
    """The part of a channel that a task has read: everything up to `upto`, or only the changes after `since`."""

    task: str
    channel: str
    since: int | None  # from where the task's cursor moves to `upto`, provided that no other run moved it meanwhile
    upto: ChannelPosition


FILE_PRODUCER_PREFIX = "file:"
"""The prefix of the producer name of an inserted file; the hash of the file's content follows."""


@dataclass(frozen=True, slots=True)
class ProducerAdvance:
    """The run commits a producer's messages after `since`: its number moves to `upto`, unless another run moved it."""

    channel: str
    producer: str
    since: int
    upto: int


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """Everything that a run's commit makes visible atomically."""

    blocks: tuple[WrittenBlock, ...]
    consumptions: tuple[Consumption, ...] = ()
    stats: Mapping[str, Any] = field(default_factory=dict)
    log: str = ""
    costs: Mapping[tuple[str, str], Any] = field(default_factory=dict)  # fitted, by task and variant, as JSON
    producer_advances: tuple[ProducerAdvance, ...] = ()
    merge_seconds: Mapping[str, float] = field(default_factory=dict)  # seconds spent merging, by channel read
    backlog_since: float | None = None  # arrival time of the oldest data that this run left unread, if any


@dataclass(frozen=True, slots=True)
class ConsumedInput:
    """One read of one invocation: the span, and whether the channel is an input channel."""

    port: str
    mode: ReadMode
    span: ReadSpan
    is_input: bool
    advance: bool = False

    def compute_provenance_before(self) -> Provenance:
        """The provenance of the read at the start of the change: for ALL, the same as at its end."""
        return self._compute_provenance(self.span.upto if self.mode is ReadMode.ALL else self.span.since)

    def compute_provenance_after(self) -> Provenance:
        return self._compute_provenance(self.span.since if self.mode is ReadMode.OLD else self.span.upto)

    def _compute_provenance(self, position: ChannelPosition) -> Provenance:
        return position.provenance if self.is_input else position.provenance.append_channel(self.port)

    def describe_content(self) -> list[Identity]:
        """The identities of the content read: for NEW, of the contents before and after the change."""
        before, now = self.span.since.content_identity, self.span.upto.content_identity
        return {ReadMode.ALL: [now], ReadMode.NEW: [before, now], ReadMode.OLD: [before]}[self.mode]


def compute_provenance(task: Task, kind: BlockKind, reads: tuple[ConsumedInput, ...]) -> tuple[Provenance, Provenance]:
    """Source and target provenance of an output of `task`.

    The task's state adds nothing: its provenance came from the other inputs. Where a channel is read as NEW, its OLD
    and ALL add nothing either.
    """
    new = {r.port for r in reads if r.mode is ReadMode.NEW}
    contributing = [
        r for r in reads if r.port not in task.state_ports and (r.mode is ReadMode.NEW or r.port not in new)
    ]
    target = merge_provenances(r.compute_provenance_after() for r in contributing)
    if kind is BlockKind.BASE:
        return EMPTY_PROVENANCE, target
    return merge_provenances(r.compute_provenance_before() for r in contributing), target


VOID_IDENTITY = compute_identity("void")
"""The identity of a void base: the content was dropped and must be recomputed."""


def compute_output_identity(task: Task, argument: str, reads: tuple[ConsumedInput, ...]) -> Identity:
    """The identity of a block that `task` writes as `argument` from `reads`, in port order."""
    return compute_dataset_identity(describe_output(task, argument, [r.describe_content() for r in reads]))


def build_pending_block(written: WrittenBlock, updates: Updates, since: int) -> Block:
    """An uncommitted block of the current run, as later tasks of the run read it."""
    slot = written.reservation
    block = Block(slot.block, slot.channel, slot.seq, slot.kind, written.schema, task=slot.task)
    content = {name: getattr(written, name) for name in ("files", "source", "target", "identity")}
    return replace(
        block, since=since if slot.kind is BlockKind.DELTA else None, updates=slot.updates or updates, **content
    )
