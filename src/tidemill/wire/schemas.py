"""Documents about channels, blocks, runs, flows and events, as the API and `--json` have them."""

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from tidemill.model.schema import Schema
from tidemill.wire.document import (
    ProvenanceField,
    ResponseDocument,
    Seconds,
    Source,
    Timestamp,
    UpdatesField,
    VersionTimestamp,
)


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


Columns = Annotated[
    list[ColumnDocument] | None,
    BeforeValidator(lambda schema: schema.fields if isinstance(schema, Schema) else schema),
    Field(alias="schema"),
]


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
    visible: Annotated[VersionTimestamp | None, Source("version")]
    source: ProvenanceField
    target: ProvenanceField
    channel_provenance: ProvenanceField
    watermark: Annotated[
        VersionTimestamp | None, Field(description="Watermark: event time up to which the channel is complete.")
    ]
    identity: str
    updates: UpdatesField
    columns: Columns


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
    step: Annotated[int, Field(description="Derivation steps to the traced block.")]
    derived_blocks: Annotated[list[int], Field(description="Blocks that were derived from it in this step.")]


class BlockDerivationDocument(ResponseDocument):
    block: int
    step: Annotated[int, Field(description="Derivation steps from the traced block.")]
    source_blocks: Annotated[list[int], Field(description="Blocks of the step before that it was derived from.")]


class TraceDocument(ResponseDocument):
    """A block, its sources, and the blocks derived from it, each with its derivation."""

    block: BlockDocument
    sources: list[BlockSourceDocument]
    derived: list[BlockDocument]
    derivations: list[BlockDerivationDocument]
    is_complete: Annotated[bool, Field(description="False: there are more blocks within the depth.")]


def _compute_duration(run: Any) -> float | None:
    return None if run.started is None or run.finished is None else run.finished - run.started


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
    seconds: Annotated[Seconds | None, Source(_compute_duration)]
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
    log: str | None  # None: the caller may not act on the run


class RunLogDocument(ResponseDocument):
    run: int
    log: str | None  # None: the caller may not act on the run


class ReflectedVersionsDocument(ResponseDocument):
    pathway: list[str]
    versions: list[int]
    latest: Annotated[VersionTimestamp | None, Source("latest_version")]


class ConsumerDocument(ResponseDocument):
    flow: str
    task: str
    modes: list[str]
    behind: int


class PathwayStalenessDocument(ResponseDocument):
    """The staleness by a pathway, in seconds."""

    pathway: list[str]
    staleness: Seconds
    target_lag: float | None


def _list_pathways(channel: Any) -> Iterator[tuple[Any, ...]]:
    status = channel.target_status
    return ((pathway, stale, status.bounds.get(pathway)) for pathway, stale in sorted(status.staleness.items()))


def _limit_inconsistency(channel: Any) -> float | None:
    inconsistency = channel.target_status.inconsistency
    return None if inconsistency is None else max(0.0, inconsistency)


class FreshnessTargetDocument(ResponseDocument):
    """The freshness target of a channel, in seconds, and its status."""

    lag: Annotated[dict[str, float], Source("registered.channel.freshness_target.lag")] = Field(default={})
    consistency: Annotated[float | None, Source("target_status.consistency")] = None
    accepts: Annotated[list[str], Source("registered.channel.freshness_target.accepts")] = Field(default=[])
    pathways: Annotated[list[PathwayStalenessDocument], Source(_list_pathways)]
    inconsistency: Annotated[Seconds | None, Source(_limit_inconsistency)]
    is_late: Annotated[bool, Source("target_status.is_late")]
    is_inconsistent: Annotated[bool, Source("target_status.is_inconsistent")]


class ChannelTargetDocument(FreshnessTargetDocument):
    """The freshness target of a channel, with the channel's name and workflow."""

    channel: Annotated[str, Source("registered.channel.name")]
    workflow: Annotated[str, Source("registered.workflow")]


class TargetListDocument(ResponseDocument):
    freshness_targets: list[ChannelTargetDocument]


class ChannelDocument(ResponseDocument):
    name: Annotated[str, Source("registered.channel.name")]
    workflow: Annotated[str, Source("registered.workflow")]
    role: Annotated[str, Source("registered.channel.role")]
    updates: Annotated[UpdatesField, Source("registered.channel.updates")]
    columns: Annotated[Columns, Source("registered.channel.schema")]
    head: Annotated[int, Source("registered.head.seq")]
    blocks: Annotated[int, Source("registered.blocks")]
    rows: Annotated[int | None, Field(description="Of its content; null: unknown without reading it.")]
    rows_in_blocks: Annotated[int, Source("registered.rows")]
    bytes: Annotated[int, Source("registered.bytes")]
    reserved: Annotated[int, Source("registered.reserved")]
    provenance: Annotated[ProvenanceField, Source("registered.head.provenance")]
    reflects: list[ReflectedVersionsDocument]
    watermark: Annotated[
        VersionTimestamp | None,
        Field(description="Watermark: event time up to which the content is complete; null: none, or unknown."),
    ]
    freshness_target: Annotated[
        FreshnessTargetDocument | None, Source(lambda channel: None if channel.target_status is None else channel)
    ]
    consumers: list[ConsumerDocument]


class ChannelListDocument(ResponseDocument):
    channels: list[ChannelDocument]


class ChannelDetailsDocument(ResponseDocument):
    channel: ChannelDocument
    compaction: str | None  # whether it is due, with the reason; null: nothing was written yet


class ChannelSchemaDocument(ResponseDocument):
    channel: str
    columns: Columns


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
    last_run: Annotated[RunDocument | None, Source("last")]
    pending_channels: list[str]


class FlowListDocument(ResponseDocument):
    flows: list[FlowDocument]


class FlowDetailsDocument(ResponseDocument):
    flow: FlowDocument


class HealthDocument(ResponseDocument):
    status: Annotated[Literal["ok", "degraded"], Source(lambda health: "degraded" if health.reason else "ok")]
    reason: Annotated[str | None, Field(description="Why it is degraded.")] = None


class QuotaDocument(ResponseDocument):
    """The quota of a workflow, in tracks and bytes, and the bytes that its channels use."""

    workflow: str
    tracks: Annotated[int | None, Source("quota.tracks")]
    storage: Annotated[int | None, Source("quota.storage")]
    used_bytes: int
    is_exceeded: bool


class StatusDocument(ResponseDocument):
    channels: list[ChannelDocument]
    flows: list[FlowDocument]
    active: list[RunDocument]
    health: HealthDocument
    quotas: list[QuotaDocument]


class EventDocument(ResponseDocument):
    id: int
    at: Timestamp
    kind: str
    subject: str
    run: int | None
    detail: dict[str, Any]


class EventListDocument(ResponseDocument):
    events: list[EventDocument]


class StalenessPointDocument(ResponseDocument):
    at: Timestamp
    seconds: Seconds


class StalenessCurveDocument(ResponseDocument):
    """A piecewise linear curve; at a jump two points have the same time."""

    table: str
    points: list[StalenessPointDocument]
    integral: Annotated[Seconds, Field(description="Integral of the staleness over time, in square seconds.")]
    now: Annotated[float | None, Source(lambda _: None)] = None


class StalenessDocument(ResponseDocument):
    measure: str
    since: Timestamp
    now: Timestamp
    tables: list[StalenessCurveDocument]
    total: StalenessCurveDocument
