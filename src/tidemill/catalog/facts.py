"""What is known of bound flows that matters for which of them goes first; and what people wish of the dispatchers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, delete, func, insert, select

from tidemill.catalog.tables import bindings, costs, runs, wishes, workflows
from tidemill.catalog.transaction import Transaction
from tidemill.model.codec import Json
from tidemill.model.run import RunKind, RunState
from tidemill.ports import FlowFacts


def facts(connection: Connection) -> list[FlowFacts]:
    """Three questions, however many flows there are."""
    known = connection.execute(_FLOWS).all()
    usual, rhythm = _usual(connection), _rhythm(connection)
    writers: dict[str, set[str]] = defaultdict(set)
    for row in known:
        for channel in _written(row.spec):
            writers[channel].add(row.name)
    return [
        FlowFacts(
            row.name,
            row.spec.get("priority", 1.0),
            row.urgency,
            tuple(sorted({w for c in _read(row.spec) for w in writers[c]} - {row.name})),
            usual.get(row.id),
            *rhythm.get(row.name, (None, None)),
        )
        for row in known
    ]


_FLOWS = (
    select(bindings.c.id, bindings.c.name, bindings.c.spec, workflows.c.priority.label("urgency"))
    .join_from(bindings, workflows)
    .where(bindings.c.active)
)


def _usual(connection: Connection) -> dict[int, float]:
    """Seconds of a run, by binding: of each task the variant that is the quickest."""
    least: dict[tuple[int, str], float] = {}
    for row in connection.execute(select(costs)):
        key = (row.binding_id, row.task)
        least[key] = min(row.learnt["usual"], least.get(key, row.learnt["usual"]))
    total: dict[int, float] = defaultdict(float)
    for (binding, _), seconds in least.items():
        total[binding] += seconds
    return dict(total)


def _rhythm(connection: Connection) -> dict[str, tuple[float, float | None]]:
    """When a flow's last finished run began, and the time between two, by name."""
    began = (func.max(runs.c.started), func.min(runs.c.started), func.count())
    finished = (runs.c.kind == RunKind.FLOW, runs.c.state == RunState.FINISHED)
    query = select(runs.c.subject, *began).where(*finished).group_by(runs.c.subject)
    return {
        name: (last, (last - first) / (count - 1) if count > 1 else None)
        for name, last, first, count in connection.execute(query)
    }


def _written(spec: Json) -> set[str]:
    return {w["channel"] for t in spec["tasks"] for w in t["writes"]}


def _read(spec: Json) -> set[str]:
    return {r["channel"] for t in spec["tasks"] for r in t["reads"]}


def wished(connection: Connection) -> dict[str, Any]:
    return {row.name: row.value for row in connection.execute(select(wishes))}


def wish(tx: Transaction, wanted: Mapping[str, Any]) -> None:
    """Say what is wished; None takes a wish back."""
    for name, value in wanted.items():
        tx.connection.execute(delete(wishes).where(wishes.c.name == name))
        if value is not None:
            tx.connection.execute(insert(wishes).values(name=name, value=value))
