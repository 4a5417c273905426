"""What is known of bound flows that matters for which of them goes first; and what people wish of the dispatchers."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from threading import Lock
from typing import Any

from sqlalchemy import Connection, Select, delete, func, insert, select

from tidemill.catalog.events import EventKind
from tidemill.catalog.rows import AnyRow
from tidemill.catalog.tables import bindings, costs, events, firings, runs, wishes, workflows
from tidemill.catalog.transaction import Transaction
from tidemill.model.codec import Json
from tidemill.model.run import RunKind, RunState
from tidemill.ports.records import FlowStatistics, WatermarkProgress

LATELY, MOST = 20, 10_000
"""Newest runs of a flow, and of all flows at the first look, from which is learnt how long one takes and how often it
is due."""

_RUN = (runs.c.subject, runs.c.created, runs.c.started, runs.c.finished, runs.c.stats)
_FINISHED = (runs.c.kind == RunKind.FLOW, runs.c.state == RunState.FINISHED)
_LIVE = runs.c.backfill.is_(False)

_DECLARED = select(events.c.id).where(
    events.c.kind.in_((EventKind.BINDING_APPLIED, EventKind.BINDING_REMOVED, EventKind.WORKFLOW_PRIORITISED))
)
_FIRED = select(events.c.subject, events.c.at).where(events.c.kind == EventKind.TRIGGER_FIRED)
_RAN = (
    select(events.c.kind, runs.c.backfill, *_RUN)
    .join_from(events, runs, events.c.run_id == runs.c.id)
    .where(events.c.kind.in_((EventKind.RUN_REQUESTED, EventKind.RUN_FINISHED)), runs.c.kind == RunKind.FLOW)
)


def _build_history() -> deque[float]:
    return deque(maxlen=LATELY)


@dataclass(slots=True)
class _FlowHistory:
    """What was seen of a flow, the newest last."""

    priority: float
    urgency: int
    parents: tuple[str, ...]
    learnt: float | None  # seconds of a run, as the planner has it
    began: float | None
    took: deque[float] = field(default_factory=_build_history)
    besides: deque[float] = field(default_factory=_build_history)  # seconds of a run that its tasks did not take
    made: deque[float] = field(default_factory=_build_history)  # rows for each that was read
    fired: deque[float] = field(default_factory=_build_history)
    asked: deque[float] = field(default_factory=_build_history)
    settled: deque[tuple[float, float]] = field(default_factory=lambda: deque(maxlen=LATELY))  # when, and up to where

    def record_finish(self, run: AnyRow) -> None:
        tasks = run.stats.get("tasks")
        if tasks:  # else it found nothing to do
            self.took.append(run.finished - run.started)
            self.besides.append(self.took[-1] - sum(t.get("seconds", 0.0) for t in tasks.values()))
            self.made.extend(_compute_selectivity(tasks.values()))
            self.settled.extend((run.started, t["edge"]) for t in tasks.values() if "edge" in t)

    def record_run(self, run: AnyRow) -> None:
        if run.kind == EventKind.RUN_FINISHED:
            self.began = max(self.began or run.started, run.started)
        if run.kind == EventKind.RUN_FINISHED and not run.backfill:
            self.record_finish(run)
        elif not run.backfill:
            self.asked.append(run.created)

    def compute_statistics(self, name: str) -> FlowStatistics:
        """Seconds are the median, for a cold start or a bad moment is not usual.

        A firing counts even where the run of the one before still waits: else flows would seem to be due less often the
        more there is to do. Of a flow that no trigger fires, its runs say how often it was asked for.
        """
        seconds = median(self.took) if self.took else self.learnt
        due = self.fired if len(self.fired) > 1 else self.asked
        period = (max(due) - min(due)) / (len(due) - 1) if len(due) > 1 else None
        selectivity = median(self.made) if self.made else None
        known = (self.priority, self.urgency, self.parents, seconds, self.began, period, selectivity)
        return FlowStatistics(
            name, *known, _compute_progress(self.settled), median(self.besides) if self.besides else None
        )


def _compute_progress(settled: Sequence[tuple[float, float]]) -> WatermarkProgress | None:
    """From the first of them to the last; a lone one should go on as time does."""
    if not settled:
        return None
    (first, before), (last, edge) = settled[0], settled[-1]
    return WatermarkProgress(last, edge, max(0.0, (edge - before) / (last - first)) if last > first else 1.0)


def _compute_selectivity(tasks: Iterable[Json]) -> list[float]:
    """Of a run, as far as it read anything."""
    known = [t for t in tasks if "rows_out" in t]
    read = sum(t["change"] or t["content"] for t in known)
    return [sum(t["rows_out"] for t in known) / read] if read else []


class FlowStatisticsCache:
    """What is known of all flows. The first look reads all of it; later ones read what events say happened since."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._upto: int | None = None  # the newest event at the last look
        self._flows: dict[str, _FlowHistory] = {}
        self._facts: dict[str, FlowStatistics] = {}

    def read_statistics(self, connection: Connection) -> dict[str, FlowStatistics]:
        """Facts that did not change are the same objects as before. Nothing must have been read by the connection."""
        with self._lock:
            upto = connection.execute(select(func.max(events.c.id))).scalar() or 0
            if self._upto is None or self._read_since(connection, _DECLARED):
                self._flows = _read_all_flows(connection)
                self._facts = {name: flow.compute_statistics(name) for name, flow in self._flows.items()}
            else:
                self._facts |= {
                    name: self._flows[name].compute_statistics(name) for name in self._record_new_events(connection)
                }
            self._upto = upto
            return self._facts.copy()

    def _record_new_events(self, connection: Connection) -> set[str]:
        """Take note of what happened since the last look, and say to whom."""
        fired = [f for f in self._read_since(connection, _FIRED) if f.subject in self._flows]
        ran = [r for r in self._read_since(connection, _RAN) if r.subject in self._flows]
        for firing in fired:
            self._flows[firing.subject].fired.append(firing.at)
        for run in ran:
            self._flows[run.subject].record_run(run)
        return {row.subject for row in (*fired, *ran)}

    def _read_since(self, connection: Connection, query: Select[Any]) -> Sequence[AnyRow]:
        return connection.execute(query.where(events.c.id > self._upto).order_by(events.c.id)).all()


def _read_all_flows(connection: Connection) -> dict[str, _FlowHistory]:
    """Six questions, however many flows there are."""
    flows = _read_declared_flows(connection)
    newest = min(MOST, LATELY * len(flows))
    finished = select(*_RUN).where(*_FINISHED, _LIVE).order_by(runs.c.id.desc())
    asked = select(runs.c.subject, runs.c.created).where(runs.c.kind == RunKind.FLOW, _LIVE).order_by(runs.c.id.desc())
    fired = select(firings.c.flow, firings.c.at).order_by(firings.c.id.desc())
    for run in reversed(connection.execute(finished.limit(newest)).all()):
        if run.subject in flows:
            flows[run.subject].record_finish(run)
    for name, at in reversed(connection.execute(asked.limit(newest)).all()):
        if name in flows:
            flows[name].asked.append(at)
    for name, at in reversed(connection.execute(fired.limit(newest)).all()):
        if name in flows:
            flows[name].fired.append(at)
    return flows


def _read_declared_flows(connection: Connection) -> dict[str, _FlowHistory]:
    active = select(bindings.c.name, bindings.c.spec, workflows.c.priority.label("urgency"))
    known = connection.execute(active.join_from(bindings, workflows).where(bindings.c.active)).all()
    learnt, began = _read_cost_estimates(connection), _read_last_starts(connection)
    writers: dict[str, set[str]] = defaultdict(set)
    for row in known:
        for channel in _list_written_channels(row.spec):
            writers[channel].add(row.name)
    return {
        row.name: _FlowHistory(
            row.spec.get("priority", 1.0),
            row.urgency,
            tuple(sorted({w for c in _list_read_channels(row.spec) for w in writers[c]} - {row.name})),
            learnt.get(row.name),
            began.get(row.name),
        )
        for row in known
    }


def _read_cost_estimates(connection: Connection) -> dict[str, float]:
    """Seconds of a run as the planner has it, by flow: of each task the variant that is the quickest."""
    least: dict[tuple[str, str], float] = {}
    for row in connection.execute(select(bindings.c.name, costs.c.task, costs.c.learnt).join_from(costs, bindings)):
        key = (row.name, row.task)
        least[key] = min(row.learnt["usual"], least.get(key, row.learnt["usual"]))
    total: dict[str, float] = defaultdict(float)
    for (flow, _), seconds in least.items():
        total[flow] += seconds
    return dict(total)


def _read_last_starts(connection: Connection) -> dict[str, float]:
    """When a flow's last finished run began, by name."""
    query = select(runs.c.subject, func.max(runs.c.started).label("last")).where(*_FINISHED).group_by(runs.c.subject)
    return {row.subject: row.last for row in connection.execute(query)}


def _list_written_channels(spec: Json) -> set[str]:
    return {w["channel"] for t in spec["tasks"] for w in t["writes"]}


def _list_read_channels(spec: Json) -> set[str]:
    return {r["channel"] for t in spec["tasks"] for r in t["reads"]}


def read_setting_overrides(connection: Connection) -> dict[str, Any]:
    return {row.name: row.value for row in connection.execute(select(wishes))}


def override_settings(tx: Transaction, wanted: Mapping[str, Any]) -> None:
    """Say what is wished; None takes a wish back."""
    for name, value in wanted.items():
        tx.connection.execute(delete(wishes).where(wishes.c.name == name))
        if value is not None:
            tx.connection.execute(insert(wishes).values(name=name, value=value))
