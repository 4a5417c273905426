"""What a catalog answers with: its records of channels, flows, triggers, servers and what happened."""

from __future__ import annotations

from dataclasses import dataclass

from tidemill.model.block import ChannelPosition
from tidemill.model.channel import Channel
from tidemill.model.codec import Json
from tidemill.model.schema import Schema
from tidemill.model.trigger import Leaf, Trigger


@dataclass(frozen=True, slots=True)
class RegisteredChannel:
    """A channel as the catalog knows it."""

    channel: Channel  # its schema is that of the newest block, once there is one
    head: ChannelPosition  # how far it can be read
    blocks: int  # filled blocks
    rows: int  # rows in the files of filled blocks
    bytes: int
    reserved: int  # slots that runs hold now
    workflow: str
    declared: Schema | None = None  # the schema that its tasks, or inserts, are held to; None: that of blocks is learnt


@dataclass(frozen=True, slots=True)
class RegisteredBinding:
    """A bound flow as it was last applied."""

    name: str
    workflow: str
    identity: str
    spec: Json  # as `codec.binding_to_json` wrote it


@dataclass(frozen=True, slots=True)
class ChannelRead:
    """One task's consumption of one channel in one run: (since, upto] for deltas, upto for snapshots."""

    run: int
    task: str
    channel: str
    since: int | None  # None: the task read the whole content only
    upto: int


@dataclass(frozen=True, slots=True)
class Cursor:
    """How far a task has consumed a channel."""

    binding: str
    task: str
    channel: str
    position: ChannelPosition


@dataclass(frozen=True, slots=True)
class Event:
    """One transition, as it happened."""

    id: int
    at: float
    kind: str
    subject: str
    run: int | None
    detail: Json


@dataclass(frozen=True, slots=True)
class RegisteredWorkflow:
    """A workflow as the catalog knows it."""

    name: str
    applied: float
    paused: bool
    priority: int
    document: Json | None = None  # what declares it, if no file does


@dataclass(frozen=True, slots=True)
class RegisteredTrigger:
    """One condition of a bound flow's triggers, and how it stands."""

    id: int
    flow: str
    root: int  # which of the flow's triggers it belongs to
    leaf: Leaf
    due: float | None  # from when on it is
    since: float | None  # data triggers: when the first of what waits came
    rows: int  # that wait
    bytes: int
    missed: int
    fired: float | None  # it has, and the other parts of its compound have not
    paused: bool
    lead: float = 0.0  # of a promise: seconds before it would be broken that it is due


@dataclass(frozen=True, slots=True)
class TriggerFiring:
    """A trigger fired, and a run handles it."""

    id: int
    at: float
    flow: str
    trigger: Trigger
    missed: int  # times that it would have fired as well, had somebody been there
    run: int


@dataclass(frozen=True, slots=True)
class DeltaLink:
    """A filled delta: from where to where on its channel it leads, and when it became visible."""

    since: int
    seq: int
    visible: float


@dataclass(frozen=True, slots=True)
class WatermarkProgress:
    """How event time gets on: what had come by `at` settled it up to `edge`; and by how much each second, lately."""

    at: float
    edge: float
    rate: float

    def predict_watermark(self, moment: float) -> float:
        """Where the edge should be once all that came by then is loaded.

        >>> WatermarkProgress(100.0, 40.0, 0.5).predict_watermark(120.0)
        50.0
        """
        return self.edge + self.rate * (moment - self.at)


@dataclass(frozen=True, slots=True)
class FlowStatistics:
    """What is known of a bound flow that matters for when it runs."""

    flow: str
    priority: float  # how much its staleness counts
    urgency: int  # of its workflow: larger goes first
    parents: tuple[str, ...]  # flows that write what it reads
    seconds: float | None  # that a run usually takes
    began: float | None = None  # when its last finished run did
    period: float | None = None  # seconds between two times that it was due, lately
    selectivity: float | None = None  # rows that a run usually makes for each that it reads
    pace: WatermarkProgress | None = None  # of the event time that it settles
    start: float | None = None  # of the seconds, those that a run takes besides its tasks


SERVING = "serving"
RECOVERING = "recovering"  # its engine was lost and is started again; until then it takes no run and does not lead


@dataclass(frozen=True, slots=True)
class Server:
    """A process that executes runs."""

    name: str
    role: str  # "up" or "work"
    tracks: int
    state: str = SERVING  # or RECOVERING, "draining", "stopped"
    started: float = 0.0
    seen: float = 0.0
    leader: bool = False


@dataclass(frozen=True, slots=True)
class CatalogIdentity:
    """Which catalog this is, and how far it has come: neither of the two numbers ever goes back."""

    id: str
    clock: int  # its last reading
    newest_run: int  # 0 if there is none yet


@dataclass(frozen=True, slots=True)
class RunExpiryCounts:
    """How much history was forgotten."""

    runs: int = 0
    blocks: int = 0  # descriptions of blocks whose files were gone already

    def __add__(self, other: RunExpiryCounts) -> RunExpiryCounts:
        return RunExpiryCounts(self.runs + other.runs, self.blocks + other.blocks)


@dataclass(frozen=True, slots=True)
class ChannelMergeCost:
    """What those who read a channel have paid for merging since its newest base, and what a new base costs."""

    channel: str
    reads: int = 0  # that had something to merge
    paid: float = 0.0  # seconds
    rewriting: Json | None = None  # what new bases have taught about their cost
    asked: int = 0  # reads by somebody who waited, since there are any
