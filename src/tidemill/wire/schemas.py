"""The response documents of the API, which are the same as the output of the command line with `--json`.

Unknown fields are kept, so that a client may be older than its server.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from tidemill.model.renamed import find_renamed_key

Timestamp = Annotated[str, Field(json_schema_extra={"format": "date-time"})]
"""ISO 8601 in UTC."""

Provenance = dict[str, list[int]]
"""By pathway, the versions reflected."""


class ResponseDocument(BaseModel):
    model_config = ConfigDict(extra="allow", frozen=True)


class RequestDocument(BaseModel):
    """The body of a request. Unknown fields are rejected; those of earlier releases with their new name."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    renamed: ClassVar[Mapping[str, str]] = {}

    @model_validator(mode="before")
    @classmethod
    def _reject_renamed(cls, data: Any) -> Any:
        if isinstance(data, Mapping) and (problem := find_renamed_key(data, cls.renamed)) is not None:
            raise ValueError(problem)
        return data


class ErrorDetailDocument(ResponseDocument):
    kind: str  # the name of the error's class
    message: str


class ErrorDocument(ResponseDocument):
    """The body of every error response."""

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
    visible: Timestamp | None
    source: Provenance
    target: Provenance
    channel_provenance: Provenance
    watermark: Annotated[
        Timestamp | None, Field(description="Watermark: event time up to which the channel is complete.")
    ]
    identity: str
    updates: dict[str, Any]
    columns: Annotated[list[ColumnDocument] | None, Field(alias="schema")]


class BlockListDocument(ResponseDocument):
    blocks: list[BlockDocument]


class PinDocument(ResponseDocument):
    block: BlockDocument
    retained_blocks: Annotated[list[int], Field(description="Blocks retained for it: itself and its inputs.")]


class InsertDocument(ResponseDocument):
    block: BlockDocument
    repeated: bool


class BlockSourceDocument(ResponseDocument):
    channel: str
    since: int | None
    upto: int
    blocks: list[BlockDocument]
    expired: bool


class TraceDocument(ResponseDocument):
    block: BlockDocument
    sources: list[BlockSourceDocument]
    derived: list[BlockDocument]


class RunDocument(ResponseDocument):
    id: int
    kind: str
    subject: str
    state: str
    attempt: int
    owner: str | None
    created: Timestamp
    started: Timestamp | None
    finished: Timestamp | None
    not_before: Timestamp | None
    lease_until: Timestamp | None
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
    latest: Timestamp | None


class ConsumerDocument(ResponseDocument):
    flow: str
    task: str
    modes: list[str]
    behind: int


class PathwayStalenessDocument(ResponseDocument):
    """The staleness by a pathway, in seconds."""

    pathway: list[str]
    staleness: float
    target_lag: float | None


class FreshnessTargetDocument(ResponseDocument):
    """The freshness target of a channel, in seconds, and its status."""

    lag: dict[str, float] = {}
    consistency: float | None = None
    accepts: list[str] = []
    pathways: list[PathwayStalenessDocument]
    inconsistency: float | None
    is_late: bool
    is_inconsistent: bool


class ChannelDocument(ResponseDocument):
    name: str
    workflow: str
    role: str
    updates: dict[str, Any]
    columns: Annotated[list[ColumnDocument] | None, Field(alias="schema")]
    head: int
    blocks: int
    rows: Annotated[int | None, Field(description="Of its content; null: unknown without reading it.")]
    rows_in_blocks: int
    bytes: int
    reserved: int
    provenance: Provenance
    reflects: list[ReflectedVersionsDocument]
    watermark: Annotated[
        Timestamp | None,
        Field(description="Watermark: event time up to which the content is complete; null: none, or unknown."),
    ]
    freshness_target: FreshnessTargetDocument | None
    consumers: list[ConsumerDocument]


class ChannelListDocument(ResponseDocument):
    channels: list[ChannelDocument]


class ChannelDetailsDocument(ResponseDocument):
    channel: ChannelDocument
    compaction: str | None  # whether it is due, with the reason; null: nothing was written yet


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
    pending_channels: list[str]


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
    at: Timestamp
    kind: str
    subject: str
    run: int | None
    detail: dict[str, Any]


class EventListDocument(ResponseDocument):
    events: list[EventDocument]


class HealthDocument(ResponseDocument):
    status: Literal["ok"]


class StalenessPointDocument(ResponseDocument):
    at: Timestamp
    seconds: float


class StalenessCurveDocument(ResponseDocument):
    """A piecewise linear curve; at a jump two points have the same time."""

    table: str
    points: list[StalenessPointDocument]
    integral: Annotated[float, Field(description="Integral of the staleness over time, in square seconds.")]
    now: float | None = None


class StalenessDocument(ResponseDocument):
    measure: str
    since: Timestamp
    now: Timestamp
    tables: list[StalenessCurveDocument]
    total: StalenessCurveDocument
