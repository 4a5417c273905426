"""Documents of `explain` and `lineage`."""

from __future__ import annotations

from typing import Any

from tidemill.wire.schemas import ResponseDocument


class OperatorStateDocument(ResponseDocument):
    channel: str
    widget: str
    columns: list[str]
    updates: str
    key: list[str]


class VariantDocument(ResponseDocument):
    name: str
    reads: list[tuple[str, list[str]]]
    writes: list[tuple[str, str, str | None]]
    rows: int | None
    seconds: float | None
    obstacle: str


class ProgramLineDocument(ResponseDocument):
    name: str
    looks_at: list[str]
    operators: list[str]


class TableWriterDocument(ResponseDocument):
    flow: str
    task: str
    location: str
    refresh: str | None
    way: str | None
    why: str
    widgets: list[str]
    states: list[OperatorStateDocument]
    variants: list[VariantDocument]
    program: list[ProgramLineDocument]


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
    now: bool
    steps: list[PlannedTaskDocument]
    refused: list[RejectedVariantDocument]
    seconds: float | None


class ExplanationDocument(ResponseDocument):
    table: str
    writers: list[TableWriterDocument]
    plan: RefreshPlanDocument | None
    compaction: str | None
    together: str | None


class ExplanationListDocument(ResponseDocument):
    """The explanations of all tables that a flow writes."""

    flow: str
    tables: list[ExplanationDocument]


class LineageRowDocument(ResponseDocument):
    """A row of the same wave: an ancestor of an event, the event itself, or a descendant."""

    relation: str
    channel: str
    tag: str
    row: dict[str, Any]


class LineageDocument(ResponseDocument):
    """An event with its ancestors and descendants."""

    channel: str
    tag: str
    relatives: list[LineageRowDocument]
