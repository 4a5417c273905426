"""What `explain` and `lineage` answer with."""

from __future__ import annotations

from typing import Any

from tidemill.wire.schemas import Shape


class Kept(Shape):
    channel: str
    widget: str
    columns: list[str]
    updates: str
    key: list[str]


class Weighed(Shape):
    name: str
    reads: list[tuple[str, list[str]]]
    writes: list[tuple[str, str, str | None]]
    rows: int | None
    seconds: float | None
    obstacle: str


class Line(Shape):
    name: str
    looks_at: list[str]
    operators: list[str]


class Written(Shape):
    flow: str
    task: str
    location: str
    refresh: str | None
    way: str | None
    why: str
    widgets: list[str]
    states: list[Kept]
    variants: list[Weighed]
    program: list[Line]


class Planned(Shape):
    task: str
    variant: str
    reads: list[str]
    seconds: float


class Refused(Shape):
    task: str
    variant: str
    reason: str
    seconds: float | None


class Plan(Shape):
    """What would be done to keep what is promised of a table."""

    due: float | None
    now: bool
    steps: list[Planned]
    refused: list[Refused]
    seconds: float | None


class Explanation(Shape):
    table: str
    writers: list[Written]
    plan: Plan | None
    compaction: str | None
    together: str | None


class Explanations(Shape):
    """Every table that a flow writes."""

    flow: str
    tables: list[Explanation]


class Relative(Shape):
    """A row of the same wave: what an event derives from, the event itself, or what was made of it."""

    relation: str
    channel: str
    tag: str
    row: dict[str, Any]


class Lineage(Shape):
    """An event, and all that is on its way, from outside and on from there."""

    channel: str
    tag: str
    relatives: list[Relative]
