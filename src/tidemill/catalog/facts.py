"""What is known of bound flows that matters for which of them goes first; and what people wish of the dispatchers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from statistics import median
from typing import Any

from sqlalchemy import Connection, delete, func, insert, select

from tidemill.catalog.rows import AnyRow
from tidemill.catalog.tables import bindings, costs, firings, runs, wishes, workflows
from tidemill.catalog.transaction import Transaction
from tidemill.model.codec import Json
from tidemill.model.run import RunKind, RunState
from tidemill.ports import FlowFacts


def facts(connection: Connection) -> list[FlowFacts]:
    """Six questions, however many flows there are."""
    known = connection.execute(_FLOWS).all()
    newest = min(MOST, LATELY * len(known))
    usual, began, periods = _usual(connection, newest), _began(connection), _periods(connection, newest)
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
            usual.get(row.name),
            began.get(row.name),
            periods.get(row.name),
        )
        for row in known
    ]


_FLOWS = (
    select(bindings.c.name, bindings.c.spec, workflows.c.priority.label("urgency"))
    .join_from(bindings, workflows)
    .where(bindings.c.active)
)


LATELY, MOST = 20, 10_000
"""Runs of a flow on average, and of all flows, from which it is learnt how long it takes and how often it is due."""


def _usual(connection: Connection, newest: int) -> dict[str, float]:
    """Seconds that a run takes, by flow: the median of the newest, for a cold start or a bad moment is not usual."""
    finished = (runs.c.kind == RunKind.FLOW, runs.c.state == RunState.FINISHED, runs.c.backfill.is_(False))
    query = select(runs).where(*finished).order_by(runs.c.id.desc()).limit(newest)
    took: dict[str, list[float]] = defaultdict(list)
    for run in connection.execute(query):
        if run.stats.get("tasks"):  # else it found nothing to do
            took[run.subject].append(run.finished - run.started)
    return _learnt(connection) | {flow: median(seconds) for flow, seconds in took.items()}


def _learnt(connection: Connection) -> dict[str, float]:
    """Seconds of a run as the planner has it, by flow: of each task the variant that is the quickest."""
    least: dict[tuple[str, str], float] = {}
    for row in connection.execute(select(bindings.c.name, costs.c.task, costs.c.learnt).join_from(costs, bindings)):
        key = (row.name, row.task)
        least[key] = min(row.learnt["usual"], least.get(key, row.learnt["usual"]))
    total: dict[str, float] = defaultdict(float)
    for (flow, _), seconds in least.items():
        total[flow] += seconds
    return dict(total)


def _began(connection: Connection) -> dict[str, float]:
    """When a flow's last finished run began, by name."""
    finished = (runs.c.kind == RunKind.FLOW, runs.c.state == RunState.FINISHED)
    query = select(runs.c.subject, func.max(runs.c.started).label("last")).where(*finished).group_by(runs.c.subject)
    return {row.subject: row.last for row in connection.execute(query)}


def _periods(connection: Connection, newest: int) -> dict[str, float]:
    """Seconds between two times that a flow was due, by name.

    A firing counts even where the run of the one before still waits: else flows would seem to be due less often the
    more there is to do. Of a flow that no trigger fires, its runs say how often it was asked for.
    """
    fired = select(firings.c.flow, firings.c.at).order_by(firings.c.id.desc()).limit(newest)
    live = (runs.c.kind == RunKind.FLOW, runs.c.backfill.is_(False))
    asked = select(runs.c.subject.label("flow"), runs.c.created.label("at")).where(*live).order_by(runs.c.id.desc())
    return _spaces(connection.execute(asked.limit(newest))) | _spaces(connection.execute(fired))


def _spaces(moments: Iterable[AnyRow]) -> dict[str, float]:
    """The mean time between two moments of each flow that has several."""
    of: dict[str, list[float]] = defaultdict(list)
    for moment in moments:
        of[moment.flow].append(moment.at)
    return {name: (max(at) - min(at)) / (len(at) - 1) for name, at in of.items() if len(at) > 1}


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
