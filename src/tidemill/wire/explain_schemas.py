"""Documents of `explain` and `lineage`."""

from typing import Annotated, Any

from pydantic import BeforeValidator

from tidemill.wire.document import ResponseDocument, Source

LineageTagField = Annotated[str, BeforeValidator(str), Source("tag")]


class OperatorStateDocument(ResponseDocument):
    channel: str
    operator: str
    columns: list[str]
    updates: str
    key: list[str]


class VariantDocument(ResponseDocument):
    name: str
    reads: list[tuple[str, list[str]]]
    writes: list[tuple[str, str, str | None]]
    rows: int | None
    seconds: float | None
    unsupported_reason: str


class ProgramLineDocument(ResponseDocument):
    name: str
    inputs: list[str]
    operators: list[str]


class StepDocument(ResponseDocument):
    """Where a step of the last run was computed, and why there."""

    step: str
    place: str
    reason: str
    seconds: float
    rows: int | None
    bytes: int | None


class TableWriterDocument(ResponseDocument):
    flow: str
    task: str
    location: str
    refresh: str | None
    mode: str | None
    reason: str
    operators: list[str]
    states: list[OperatorStateDocument]
    variants: list[VariantDocument]
    program: list[ProgramLineDocument]
    steps: list[StepDocument]


class PlannedTaskDocument(ResponseDocument):
    task: str
    variant: str
    reads: list[str]
    seconds: float


class RejectedVariantDocument(ResponseDocument):
    task: str
    variant: str
    reason: str
    seconds: float | None


class RefreshPlanDocument(ResponseDocument):
    """The plan for meeting a table's freshness target."""

    due: float | None
    is_due: bool
    steps: list[PlannedTaskDocument]
    rejected: list[RejectedVariantDocument]
    seconds: float | None


class ExplanationDocument(ResponseDocument):
    table: str
    writers: list[TableWriterDocument]
    plan: RefreshPlanDocument | None
    compaction: str | None
    group_advice: str | None


class ExplanationListDocument(ResponseDocument):
    """The explanations of all tables that a flow writes."""

    flow: str
    tables: list[ExplanationDocument]


class LineageRowDocument(ResponseDocument):
    """A row of the same wave: an ancestor of an event, the event itself, or a descendant."""

    relation: str
    channel: str
    lineage_tag: LineageTagField
    row: dict[str, Any]


class LineageDocument(ResponseDocument):
    """An event with its ancestors and descendants."""

    channel: str
    lineage_tag: LineageTagField
    relatives: list[LineageRowDocument]
