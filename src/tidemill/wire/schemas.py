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


class ResponseDocument(BaseModel):
    model_config = ConfigDict(extra="allow", frozen=True)


class RequestDocument(BaseModel):
    """What a caller sends. A field that is not known is a mistake, and refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class ErrorDetailDocument(ResponseDocument):
    kind: str  # the name of the error's class
    message: str


class ErrorDocument(ResponseDocument):
    """What every answer holds that is no success."""

    error: ErrorDetailDocument


class ColumnDocument(ResponseDocument):
    name: str
    type: str
    nullable: bool


class FileDocument(ResponseDocument):
    path: str
    rows: int
    bytes: int


class BlockDocument(ResponseDocument):
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
    files: list[FileDocument]
    version: int | None
    visible: Moment | None
    source: Provenance
    target: Provenance
    reached: Provenance
    edge: Annotated[Moment | None, Field(description="Event time up to which all is in the channel at this block.")]
    identity: str
    updates: dict[str, Any]
    columns: Annotated[list[ColumnDocument] | None, Field(alias="schema")]


class BlockListDocument(ResponseDocument):
    blocks: list[BlockDocument]


class PinDocument(ResponseDocument):
    block: BlockDocument
    held: Annotated[list[int], Field(description="Blocks that stay for it: itself, and what it was made from.")]


class InsertDocument(ResponseDocument):
    block: BlockDocument
    repeated: bool


class BlockSourceDocument(ResponseDocument):
    channel: str
    since: int | None
    upto: int
    blocks: list[BlockDocument]
    forgotten: bool


class TraceDocument(ResponseDocument):
    block: BlockDocument
    sources: list[BlockSourceDocument]
    made: list[BlockDocument]


class RunDocument(ResponseDocument):
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


class RunListDocument(ResponseDocument):
    runs: list[RunDocument]


class ReadingDocument(ResponseDocument):
    task: str
    channel: str
    since: int | None
    upto: int


class RunDetailsDocument(ResponseDocument):
    run: RunDocument
    reads: list[ReadingDocument]
    blocks: list[BlockDocument]
    log: str


class RunLogDocument(ResponseDocument):
    run: int
    log: str


class ReflectedVersionsDocument(ResponseDocument):
    pathway: list[str]
    versions: list[int]
    latest: Moment | None


class ConsumerDocument(ResponseDocument):
    flow: str
    task: str
    modes: list[str]
    behind: int


class PathwayStalenessDocument(ResponseDocument):
    """In seconds."""

    pathway: list[str]
    stale: float
    bound: float | None


class FreshnessTargetDocument(ResponseDocument):
    """What is promised of a channel, in seconds, and how that is kept."""

    lag: dict[str, float] = {}
    consistency: float | None = None
    accepts: list[str] = []
    pathways: list[PathwayStalenessDocument]
    apart: float | None
    late: bool
    inconsistent: bool


class ChannelDocument(ResponseDocument):
    name: str
    workflow: str
    role: str
    updates: dict[str, Any]
    columns: Annotated[list[ColumnDocument] | None, Field(alias="schema")]
    head: int
    blocks: int
    rows: Annotated[int | None, Field(description="Of its content; null: only reading it would tell.")]
    rows_in_blocks: int
    bytes: int
    reserved: int
    provenance: Provenance
    reflects: list[ReflectedVersionsDocument]
    edge: Annotated[
        Moment | None,
        Field(description="Event time up to which nothing is missing; null: it has none, or nobody can say."),
    ]
    promise: FreshnessTargetDocument | None
    consumers: list[ConsumerDocument]


class ChannelListDocument(ResponseDocument):
    channels: list[ChannelDocument]


class ChannelDetailsDocument(ResponseDocument):
    channel: ChannelDocument
    compaction: str | None  # whether it is due, and why; null: nothing was written yet


class ChannelSchemaDocument(ResponseDocument):
    channel: str
    columns: Annotated[list[ColumnDocument] | None, Field(alias="schema")]


class RowsDocument(ResponseDocument):
    """Some rows of a channel, in no order; `more` if there are others."""

    channel: str
    rows: list[dict[str, Any]]
    more: bool


class TaskReadDocument(ResponseDocument):
    channel: str
    mode: str


class TaskWriteDocument(ResponseDocument):
    channel: str
    kind: str


class TaskDocument(ResponseDocument):
    name: str
    code: str
    reads: list[TaskReadDocument]
    writes: list[TaskWriteDocument]
    location: str


class FlowDocument(ResponseDocument):
    name: str
    workflow: str
    tasks: list[TaskDocument]
    last_run: RunDocument | None
    waiting: list[str]


class FlowListDocument(ResponseDocument):
    flows: list[FlowDocument]


class FlowDetailsDocument(ResponseDocument):
    flow: FlowDocument


class StatusDocument(ResponseDocument):
    channels: list[ChannelDocument]
    flows: list[FlowDocument]
    active: list[RunDocument]


class EventDocument(ResponseDocument):
    id: int
    at: Moment
    kind: str
    subject: str
    run: int | None
    detail: dict[str, Any]


class EventListDocument(ResponseDocument):
    events: list[EventDocument]


class HealthDocument(ResponseDocument):
    status: Literal["ok"]


class StalenessPointDocument(ResponseDocument):
    at: Moment
    seconds: float


class StalenessCurveDocument(ResponseDocument):
    """Straight lines between points; where it jumps, two points have the same time."""

    table: str
    points: list[StalenessPointDocument]
    integral: Annotated[float, Field(description="Summed over time: seconds of staleness, times seconds.")]
    now: float | None = None


class StalenessDocument(ResponseDocument):
    measure: str
    since: Moment
    now: Moment
    tables: list[StalenessCurveDocument]
    total: StalenessCurveDocument
