"""The documents that the API answers with: the same as the command line prints with `--json`.

Fields that a shape does not name are passed on, so that a client may be older than its server.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Moment = Annotated[str, Field(json_schema_extra={"format": "date-time"})]
"""ISO 8601 in UTC."""

Provenance = dict[str, list[int]]
"""By pathway, the versions reflected."""


class Shape(BaseModel):
    model_config = ConfigDict(extra="allow", frozen=True)


class Wish(BaseModel):
    """What a caller sends. A field that is not known is a mistake, and refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Failure(Shape):
    kind: str  # the name of the error's class
    message: str


class Failed(Shape):
    """What every answer holds that is no success."""

    error: Failure


class ColumnShape(Shape):
    name: str
    type: str
    nullable: bool


class FileShape(Shape):
    path: str
    rows: int
    bytes: int


class Block(Shape):
    id: int
    channel: str
    seq: int
    kind: str
    since: int | None
    state: str
    pinned: bool
    origin: str
    run: int | None
    task: str | None
    rows: int
    bytes: int
    files: list[FileShape]
    version: int | None
    visible: Moment | None
    source: Provenance
    target: Provenance
    reached: Provenance
    edge: Annotated[Moment | None, Field(description="Event time up to which all is in the channel at this block.")]
    identity: str
    updates: dict[str, Any]
    columns: Annotated[list[ColumnShape] | None, Field(alias="schema")]


class Blocks(Shape):
    blocks: list[Block]


class Pinned(Shape):
    block: Block
    held: Annotated[list[int], Field(description="Blocks that stay for it: itself, and what it was made from.")]


class Inserted(Shape):
    block: Block
    repeated: bool


class Source(Shape):
    channel: str
    since: int | None
    upto: int
    blocks: list[Block]
    forgotten: bool


class Trace(Shape):
    block: Block
    sources: list[Source]
    made: list[Block]


class Run(Shape):
    id: int
    kind: str
    subject: str
    state: str
    attempt: int
    owner: str | None
    created: Moment
    started: Moment | None
    finished: Moment | None
    not_before: Moment | None
    lease_until: Moment | None
    seconds: float | None
    error: str | None
    stats: dict[str, Any]
    backfill: bool


class Runs(Shape):
    runs: list[Run]


class Reading(Shape):
    task: str
    channel: str
    since: int | None
    upto: int


class RunDetails(Shape):
    run: Run
    reads: list[Reading]
    blocks: list[Block]
    log: str


class RunLog(Shape):
    run: int
    log: str


class Reflected(Shape):
    pathway: list[str]
    versions: list[int]
    latest: Moment | None


class Consumer(Shape):
    flow: str
    task: str
    modes: list[str]
    behind: int


class PathwayStaleness(Shape):
    """In seconds."""

    pathway: list[str]
    stale: float
    bound: float | None


class Promise(Shape):
    """What is promised of a channel, in seconds, and how that is kept."""

    lag: dict[str, float] = {}
    consistency: float | None = None
    accepts: list[str] = []
    pathways: list[PathwayStaleness]
    apart: float | None
    late: bool
    inconsistent: bool


class Channel(Shape):
    name: str
    workflow: str
    role: str
    updates: dict[str, Any]
    columns: Annotated[list[ColumnShape] | None, Field(alias="schema")]
    head: int
    blocks: int
    rows: Annotated[int | None, Field(description="Of its content; null: only reading it would tell.")]
    rows_in_blocks: int
    bytes: int
    reserved: int
    provenance: Provenance
    reflects: list[Reflected]
    edge: Annotated[
        Moment | None,
        Field(description="Event time up to which nothing is missing; null: it has none, or nobody can say."),
    ]
    promise: Promise | None
    consumers: list[Consumer]


class Channels(Shape):
    channels: list[Channel]


class OneChannel(Shape):
    channel: Channel
    compaction: str | None  # whether it is due, and why; null: nothing was written yet


class ChannelSchema(Shape):
    channel: str
    columns: Annotated[list[ColumnShape] | None, Field(alias="schema")]


class Rows(Shape):
    """Some rows of a channel, in no order; `more` if there are others."""

    channel: str
    rows: list[dict[str, Any]]
    more: bool


class TaskRead(Shape):
    channel: str
    mode: str


class TaskWrite(Shape):
    channel: str
    kind: str


class Task(Shape):
    name: str
    code: str
    reads: list[TaskRead]
    writes: list[TaskWrite]
    location: str


class Flow(Shape):
    name: str
    workflow: str
    tasks: list[Task]
    last_run: Run | None
    waiting: list[str]


class Flows(Shape):
    flows: list[Flow]


class OneFlow(Shape):
    flow: Flow


class Status(Shape):
    channels: list[Channel]
    flows: list[Flow]
    active: list[Run]


class Event(Shape):
    id: int
    at: Moment
    kind: str
    subject: str
    run: int | None
    detail: dict[str, Any]


class Events(Shape):
    events: list[Event]


class Health(Shape):
    status: Literal["ok"]


class StalenessPoint(Shape):
    at: Moment
    seconds: float


class StalenessCurve(Shape):
    """Straight lines between points; where it jumps, two points have the same time."""

    table: str
    points: list[StalenessPoint]
    integral: Annotated[float, Field(description="Summed over time: seconds of staleness, times seconds.")]
    now: float | None = None


class Staleness(Shape):
    measure: str
    since: Moment
    now: Moment
    tables: list[StalenessCurve]
    total: StalenessCurve
