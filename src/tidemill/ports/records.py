"""The records that a catalog returns: channels, flows, triggers, servers and events."""

from __future__ import annotations

from dataclasses import dataclass

from tidemill.model.block import BlockKind, ChannelPosition
from tidemill.model.channel import Channel
from tidemill.model.codec import Json
from tidemill.model.identity import Identity
from tidemill.model.schema import Schema
from tidemill.model.task import ReadMode
from tidemill.model.trigger import Leaf, Trigger


@dataclass(frozen=True, slots=True)
class RegisteredChannel:
    """A channel as registered in the catalog."""

    channel: Channel  # its schema is that of the newest block, if there is one
    head: ChannelPosition  # the last readable position
    blocks: int  # filled blocks
    rows: int  # rows in the files of filled blocks
    bytes: int
    reserved: int  # open reservations
    workflow: str
    declared: Schema | None = None  # the schema that tasks and inserts must match; None: taken from the blocks


@dataclass(frozen=True, slots=True)
class RegisteredTask:
    """The signature of a task as it was last applied."""

    name: str
    identity: Identity
    code: str  # its kind: "sql", "function", …
    reads: tuple[tuple[str, ReadMode], ...]
    writes: tuple[tuple[str, BlockKind], ...]
    location: str
    has_watermark: bool = False

    @property
    def read_channels(self) -> set[str]:
        return {channel for channel, _ in self.reads}

    @property
    def written_channels(self) -> set[str]:
        return {channel for channel, _ in self.writes}


@dataclass(frozen=True, slots=True)
class RegisteredBinding:
    """A bound flow as it was last applied."""

    name: str
    workflow: str
    identity: Identity
    tasks: tuple[RegisteredTask, ...]
    attempts: int = 1
    priority: float = 1.0

    @property
    def read_channels(self) -> set[str]:
        return set[str]().union(*(task.read_channels for task in self.tasks))

    @property
    def written_channels(self) -> set[str]:
        return set[str]().union(*(task.written_channels for task in self.tasks))


Reader = tuple[str, str, str]
"""A bound flow, a task of it, and a channel that the task reads."""


@dataclass(frozen=True, slots=True)
class ChannelRead:
    """One task's consumption of one channel in one run: (since, upto] for deltas, upto for snapshots."""

    run: int
    task: str
    channel: str
    since: int | None  # None: the task read the full content only
    upto: int


@dataclass(frozen=True, slots=True)
class Cursor:
    """The position up to which a task has consumed a channel."""

    binding: str
    task: str
    channel: str
    position: ChannelPosition


@dataclass(frozen=True, slots=True)
class Event:
    """One entry of the event log."""

    id: int
    at: float
    kind: str
    subject: str
    run: int | None
    detail: Json


@dataclass(frozen=True, slots=True)
class RegisteredWorkflow:
    """A workflow as registered in the catalog."""

    name: str
    applied: float
    paused: bool
    priority: int
    document: Json | None = None  # its declaration, if no file declares it


@dataclass(frozen=True, slots=True)
class RegisteredTrigger:
    """One leaf of a bound flow's triggers, and its state."""

    id: int
    flow: str
    root: int  # the index of its trigger among those of the flow
    leaf: Leaf
    due: float | None  # the time from which on it is due
    since: float | None  # data triggers: arrival time of the oldest pending data
    rows: int  # pending
    bytes: int
    missed: int
    fired: float | None  # when it fired, while other parts of its compound have not
    paused: bool
    lead_seconds: float = 0.0  # of a freshness target: seconds that it is due before the target would be missed


@dataclass(frozen=True, slots=True)
class TriggerFiring:
    """A firing of a trigger, and the run that handles it."""

    id: int
    at: float
    flow: str
    trigger: Trigger
    missed: int  # further times at which it was due before it was handled
    run: int


@dataclass(frozen=True, slots=True)
class DeltaLink:
    """A filled delta: its sequence numbers `since -> seq`, and when it became visible."""

    since: int
    seq: int
    visible: float


@dataclass(frozen=True, slots=True)
class WatermarkProgress:
    """The progress of a watermark: at time `at` it was `watermark`, and it advances by `rate` seconds per second."""

    at: float
    watermark: float
    rate: float

    def predict_watermark(self, timestamp: float) -> float:
        """The predicted watermark once all data that arrived by that time are loaded.

        >>> WatermarkProgress(100.0, 40.0, 0.5).predict_watermark(120.0)
        50.0
        """
        return self.watermark + self.rate * (timestamp - self.at)


@dataclass(frozen=True, slots=True)
class FlowStatistics:
    """The statistics of a bound flow that the dispatcher uses."""

    flow: str
    priority: float  # weight of its staleness
    workflow_priority: int  # priority of its workflow: larger runs first
    parents: tuple[str, ...]  # flows that write its inputs
    seconds: float | None  # median duration of a run
    last_start: float | None = None  # start of its last finished run
    period: float | None = None  # recent mean of the seconds between two due times
    selectivity: float | None = None  # median of rows written per row read
    watermark_progress: WatermarkProgress | None = None  # of its watermark
    overhead_seconds: float | None = None  # median overhead of a run: its seconds outside its tasks
    seconds_per_data_second: float | None = None  # by which a run takes longer for each second of data that it loads
    workflow: str = ""


SERVING = "serving"
RECOVERING = "recovering"  # its engine was lost and is restarting; until then it claims no run and does not lead

STOPPED = "stopped"
SILENT = "silent"  # it sends no heartbeats and did not stop: it is dead or disconnected


@dataclass(frozen=True, slots=True)
class Server:
    """A process that executes runs."""

    name: str
    role: str  # "up" or "work"
    tracks: int
    state: str = SERVING  # or RECOVERING, "draining", STOPPED, SILENT
    started: float = 0.0
    last_heartbeat: float = 0.0
    leader: bool = False


@dataclass(frozen=True, slots=True)
class CatalogIdentity:
    """A catalog's id, and two numbers that never decrease."""

    id: str
    clock: int  # its last reading
    newest_run: int  # 0 if there is none yet


@dataclass(frozen=True, slots=True)
class RunExpiryCounts:
    """The numbers of expired runs and block descriptions."""

    runs: int = 0
    blocks: int = 0  # whose files had been purged before

    def __add__(self, other: RunExpiryCounts) -> RunExpiryCounts:
        return RunExpiryCounts(self.runs + other.runs, self.blocks + other.blocks)


@dataclass(frozen=True, slots=True)
class ChannelMergeCost:
    """The merge cost of a channel's readers since its newest base, and the cost model of a new base."""

    channel: str
    reads: int = 0  # that had deltas to merge
    seconds: float = 0.0  # seconds
    rewrite_cost: Json | None = None  # the cost model of new bases, fitted from past ones
    interactive_reads: int = 0  # interactive reads, never reset
