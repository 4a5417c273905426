"""Runs: atomic executions, what they consume and what they produce."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from tidemill.model.block import Block, BlockKind, ChannelPosition, DataFile
from tidemill.model.change import Updates
from tidemill.model.channel import Channel
from tidemill.model.description import compute_dataset_identity, describe_output
from tidemill.model.flow import BoundFlow
from tidemill.model.identity import Identity, compute_identity
from tidemill.model.provenance import NOTHING, Provenance, merge_provenances
from tidemill.model.schema import Schema
from tidemill.model.task import ReadMode, Task
from tidemill.model.time import Version


class RunState(StrEnum):
    WAITING = "waiting"  # for `not_before` to pass; without one, for what other runs make
    READY = "ready"  # any server may claim it
    CLAIMED = "claimed"  # a server has it, under a lease, and does what must come before
    SUBMITTED = "submitted"  # handed to the engine, under a lease; what it writes has its place
    RUNNING = "running"  # the engine has begun
    FINISHED = "finished"
    FAILED = "failed"
    KILLED = "killed"


TO_COME = (RunState.WAITING, RunState.READY)
UNDER_WAY = (RunState.CLAIMED, RunState.SUBMITTED, RunState.RUNNING)
AT_WORK = (RunState.SUBMITTED, RunState.RUNNING)
"""Under way, and its slots and readings are fixed."""


class RunKind(StrEnum):
    FLOW = "flow"
    INSERT = "insert"
    COMPACTION = "compaction"
    ACTION = "action"  # of a one-shot workflow: it makes one dataset


LOST = 3
"""Attempts of a run that may be lost for no fault of its tasks': its server dies, or is cut off from what it needs."""

OWN = (RunKind.INSERT, RunKind.COMPACTION)
"""Runs that nobody but the process that asked for them can execute: it alone has what they are about."""


BACKFILL = "tidemill-backfill"
"""How the tags of backfills begin, by which the engine lets others go first."""


@dataclass(frozen=True, slots=True)
class Run:
    """One atomic execution. `fence` changes with every claim; only its holder can commit."""

    id: int
    kind: RunKind
    subject: str  # the bound flow; the channel inserted into or compacted; workflow/action
    state: RunState
    attempt: int
    fence: int
    created: float
    owner: str | None = None
    lease_until: float | None = None
    not_before: float | None = None
    started: float | None = None
    finished: float | None = None
    error: str | None = None
    stats: Mapping[str, Any] = field(default_factory=dict)
    backfill: bool = False  # it loads history, and live tables never wait for it
    due: float | None = None  # since when, if not since it was created: what waits for it may have come before
    asked: float | None = None  # when it last was, if again since it was created: what came until then it will read
    lost: int = 0  # attempts that ended for no fault of the tasks'


@dataclass(frozen=True, slots=True)
class ReadRequest:
    """A task of the run wants to consume a channel; `cursor` if it goes on from where it last ended."""

    task: str
    channel: str
    cursor: bool
    upto: int | None = None  # a sequence number; None: all that is there
    goes_on: bool = False  # what it writes is a change of what it wrote before, so that there must be a cursor


@dataclass(frozen=True, slots=True)
class ReservationRequest:
    """A task of the run, or an insert, wants a place on a channel. A repeated key finds the first insert."""

    task: str | None
    channel: str
    kind: BlockKind
    keys: tuple[str, ...] = ()  # of the inserts that share it
    updates: Updates | None = None  # how a delta is encoded, if not as its channel gives changes to readers
    made_for: Channel | None = None  # the channel as it was when its rows were read, if that was before the claim


@dataclass(frozen=True, slots=True)
class ClaimRequest:
    """What a run needs when it is claimed.

    `through` are channels that the run both writes and reads: no other run may hold an earlier slot there.
    `versions` are the identities of the tasks as the claimer has loaded them: a claim for others than those registered
    is refused, and what the run consumes counts for these alone.
    """

    slots: tuple[ReservationRequest, ...] = ()
    reads: tuple[ReadRequest, ...] = ()
    through: frozenset[str] = frozenset()
    versions: Mapping[str, Identity] = field(default_factory=dict)


def build_claim_request(binding: BoundFlow, upto: Mapping[tuple[str, str], int] = MappingProxyType({})) -> ClaimRequest:
    """What a run of a bound flow needs. One read a task and channel, with a cursor if any mode needs one.

    `upto` says, by task and channel, how far it reads; else it reads all that is there.
    """
    reads: dict[tuple[str, str], bool] = {}
    goes_on: set[tuple[str, str]] = set()
    for task in binding.tasks:
        for read in task.reads:
            at = (task.name, read.port)
            reads[at] = reads.get(at, False) or read.mode is not ReadMode.ALL or read.advance
            if task.refresh is not None and read.mode is not ReadMode.ALL:
                goes_on.add(at)
    return ClaimRequest(
        slots=tuple(
            ReservationRequest(t.name, w.port, w.kind, updates=w.updates) for t in binding.tasks for w in t.writes
        ),
        reads=tuple(ReadRequest(*at, cursor, upto.get(at), at in goes_on) for at, cursor in reads.items()),
        through=binding.intermediate_channels,
        versions={t.name: t.compute_identity() for t in binding.tasks},
    )


@dataclass(frozen=True, slots=True)
class Reservation:
    """A reserved place on a channel, held by a run for one output of one task."""

    block: int
    channel: str
    seq: int
    kind: BlockKind
    task: str | None = None
    updates: Updates | None = None


@dataclass(frozen=True, slots=True)
class ReadSpan:
    """What a task consumes of a channel: everything up to `upto`; `since` is where its last run ended."""

    since: ChannelPosition
    upto: ChannelPosition


@dataclass(frozen=True, slots=True)
class RunClaim:
    """The right to execute a run: its fence, its slots, and the spans it shall consume.

    `slots` and `spans` are keyed by (task name, channel name). On a channel that the run itself writes
    before it reads, the span ends at the position before the run's own slot.
    """

    run: Run
    directory: str  # relative to the store's root; no other attempt ever uses it
    slots: Mapping[tuple[str | None, str], Reservation]
    spans: Mapping[tuple[str, str], ReadSpan]
    versions: Mapping[str, Identity] = field(default_factory=dict)  # identities of the tasks it was claimed for


@dataclass(frozen=True, slots=True)
class WrittenBlock:
    """What a run puts into a slot."""

    slot: Reservation
    schema: Schema
    files: tuple[DataFile, ...]
    identity: Identity
    source: Provenance = NOTHING
    target: Provenance = NOTHING
    edge: Version | None = None  # of event time, if it has any and somebody knows


@dataclass(frozen=True, slots=True)
class Consumption:
    """What a task has read of a channel: everything up to `upto`, or only what changed after `since`.

    With `since` the task's cursor moves from there to `upto`, provided that nobody moved it meanwhile.
    """

    task: str
    channel: str
    since: int | None
    upto: ChannelPosition


CONTENT = "file:"
"""How the producer is called that a file's content is: by its hash, after this."""


@dataclass(frozen=True, slots=True)
class ProducerAdvance:
    """A producer's messages on a channel, from the one after `since` up to `upto`, are in the run's blocks.

    The producer's number moves from `since` to `upto`, provided that nobody moved it meanwhile.
    """

    channel: str
    producer: str
    since: int
    upto: int


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """Everything that becomes visible when a run commits, or not at all."""

    filled: tuple[WrittenBlock, ...]
    consumed: tuple[Consumption, ...] = ()
    stats: Mapping[str, Any] = field(default_factory=dict)
    log: str = ""
    costs: Mapping[tuple[str, str], Any] = field(default_factory=dict)  # learnt, by task and variant, as JSON
    advanced: tuple[ProducerAdvance, ...] = ()
    merged: Mapping[str, float] = field(default_factory=dict)  # by channel read, the seconds that merging took
    rest: float | None = None  # more waits for the flow than this run loaded, and the oldest of it came then


@dataclass(frozen=True, slots=True)
class ConsumedInput:
    """One read of one invocation: the span, and whether the channel is fed from outside."""

    port: str
    mode: ReadMode
    span: ReadSpan
    input: bool
    advance: bool = False

    def compute_provenance_before(self) -> Provenance:
        """What the read reflected at the start of the change: for ALL, the same as at its end."""
        return self._compute_provenance(self.span.upto if self.mode is ReadMode.ALL else self.span.since)

    def compute_provenance_after(self) -> Provenance:
        return self._compute_provenance(self.span.since if self.mode is ReadMode.OLD else self.span.upto)

    def _compute_provenance(self, position: ChannelPosition) -> Provenance:
        return position.reached if self.input else position.reached.append_channel(self.port)

    def describe_content(self) -> list[Identity]:
        """What was read: the content, or those between which the change lies."""
        before, now = self.span.since.content, self.span.upto.content
        return {ReadMode.ALL: [now], ReadMode.NEW: [before, now], ReadMode.OLD: [before]}[self.mode]


def compute_provenance(task: Task, kind: BlockKind, reads: tuple[ConsumedInput, ...]) -> tuple[Provenance, Provenance]:
    """Source and target provenance of an output of `task`.

    The task's own state says nothing new: what it reflects came in through the other inputs. Where a
    channel is read as NEW, its OLD and ALL say nothing that NEW does not.
    """
    new = {r.port for r in reads if r.mode is ReadMode.NEW}
    telling = [r for r in reads if r.port not in task.state_ports and (r.mode is ReadMode.NEW or r.port not in new)]
    target = merge_provenances(r.compute_provenance_after() for r in telling)
    if kind is BlockKind.BASE:
        return NOTHING, target
    return merge_provenances(r.compute_provenance_before() for r in telling), target


VOID = compute_identity("void")
"""The identity of a base that stands for nothing: what was there was dropped, and must be made anew."""


def compute_output_identity(task: Task, argument: str, reads: tuple[ConsumedInput, ...]) -> Identity:
    """Identity of a block that `task` writes as `argument` from `reads`, in port order."""
    return compute_dataset_identity(describe_output(task, argument, [r.describe_content() for r in reads]))


def build_pending_block(filled: WrittenBlock, updates: Updates, since: int) -> Block:
    """A block of this very run, as later tasks of the run see it."""
    return Block(
        id=filled.slot.block,
        channel=filled.slot.channel,
        seq=filled.slot.seq,
        kind=filled.slot.kind,
        schema=filled.schema,
        since=since if filled.slot.kind is BlockKind.DELTA else None,
        updates=filled.slot.updates or updates,
        files=filled.files,
        source=filled.source,
        target=filled.target,
        identity=filled.identity,
        task=filled.slot.task,
    )
