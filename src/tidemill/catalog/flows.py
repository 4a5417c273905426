"""Bound flows: their costs, and the statistics by which the dispatcher orders them."""

from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from statistics import median
from threading import Lock
from typing import Any

from sqlalchemy import Connection, Select, func, select

from tidemill.catalog.database import CatalogPart, Database, in_snapshot
from tidemill.catalog.events import EventKind
from tidemill.catalog.queries import split_batches
from tidemill.catalog.rows import AnyRow, to_binding
from tidemill.catalog.tables import bindings, costs, events, firings, runs, workflows
from tidemill.model.codec import Json
from tidemill.model.identity import Identity
from tidemill.model.run import RunKind, RunState
from tidemill.ports.records import FlowStatistics, RegisteredBinding, WatermarkProgress

HISTORY_LENGTH, MAX_RUNS_READ = 20, 10_000
"""Newest runs of a flow, and of all flows on the first read, from which duration and period are estimated."""

MIN_SLOPES = 3
"""Pairs of runs with different numbers of changed rows from which the cost per row is estimated."""

_RUN_COLUMNS = (runs.c.subject, runs.c.created, runs.c.started, runs.c.finished, runs.c.stats)
_FINISHED = (runs.c.kind == RunKind.FLOW, runs.c.state == RunState.FINISHED)
_LIVE = runs.c.backfill.is_(False)

_DECLARATION_EVENTS = select(events.c.id).where(
    events.c.kind.in_((EventKind.BINDING_APPLIED, EventKind.BINDING_REMOVED, EventKind.WORKFLOW_PRIORITISED))
)
_FIRING_EVENTS = select(events.c.subject, events.c.at).where(events.c.kind == EventKind.TRIGGER_FIRED)
_RUN_EVENTS = (
    select(events.c.kind, runs.c.backfill, *_RUN_COLUMNS)
    .join_from(events, runs, events.c.run_id == runs.c.id)
    .where(events.c.kind.in_((EventKind.RUN_REQUESTED, EventKind.RUN_FINISHED)), runs.c.kind == RunKind.FLOW)
)


def _build_history() -> deque[Any]:
    return deque(maxlen=HISTORY_LENGTH)


@dataclass(slots=True)
class _FlowHistory:
    """The observations of a flow, the newest last."""

    priority: float
    workflow_priority: int
    parents: tuple[str, ...]
    estimated_seconds: float | None  # seconds of a run, as the cost model estimates it
    last_start: float | None
    workflow: str
    durations: deque[float] = field(default_factory=_build_history)
    loads: deque[tuple[float, float, float]] = field(default_factory=_build_history)  # start, changed rows, duration
    overheads: deque[float] = field(default_factory=_build_history)  # overhead: seconds of a run outside its tasks
    selectivities: deque[float] = field(default_factory=_build_history)  # rows written per row read
    firing_times: deque[float] = field(default_factory=_build_history)
    request_times: deque[float] = field(default_factory=_build_history)
    watermarks: deque[tuple[float, float]] = field(default_factory=_build_history)  # time and watermark

    def record_finish(self, run: AnyRow) -> None:
        tasks = run.stats.get("tasks")
        if tasks:  # else the run had nothing to do
            self.durations.append(run.finished - run.started)
            changed = sum(task.get("change", 0) for task in tasks.values())
            self.loads.append((run.started, changed, self.durations[-1]))
            self.overheads.append(self.durations[-1] - sum(task.get("seconds", 0.0) for task in tasks.values()))
            self.selectivities.extend(_compute_selectivity(tasks.values()))
            self.watermarks.extend((run.started, task["watermark"]) for task in tasks.values() if "watermark" in task)

    def record_run(self, run: AnyRow) -> None:
        if run.kind == EventKind.RUN_FINISHED:
            self.last_start = max(self.last_start or run.started, run.started)
        if run.kind == EventKind.RUN_FINISHED and not run.backfill:
            self.record_finish(run)
        elif not run.backfill:
            self.request_times.append(run.created)

    def compute_statistics(self, name: str) -> FlowStatistics:
        """The statistics of the flow. Seconds are the median, so that a cold start or an outlier does not count.

        A firing counts even if the run of the previous one is still pending: otherwise flows would seem to be due less
        often the higher the load is. The period of a flow without firings follows from the requests of its runs.
        """
        seconds = median(self.durations) if self.durations else self.estimated_seconds
        due_times = self.firing_times if len(self.firing_times) > 1 else self.request_times
        period = (max(due_times) - min(due_times)) / (len(due_times) - 1) if len(due_times) > 1 else None
        selectivity = median(self.selectivities) if self.selectivities else None
        fields = (self.priority, self.workflow_priority, self.parents, seconds, self.last_start, period, selectivity)
        overhead = median(self.overheads) if self.overheads else None
        return FlowStatistics(
            name,
            *fields,
            _compute_progress(self.watermarks),
            overhead,
            _compute_load_rate(self.loads),
            self.workflow,
        )


def _compute_load_rate(loads: Sequence[tuple[float, float, float]]) -> float | None:
    """The seconds that a run takes longer for each second of data: per changed row, times the rows that arrive.

    The slope is the median of the slopes between any two runs (Theil-Sen), so that outliers do not count; None if too
    few runs differ in their rows.

    >>> runs = [(0.0, 100, 2.0), (10.0, 100, 2.0), (20.0, 300, 4.0), (50.0, 500, 6.0)]
    >>> round(_compute_load_rate(runs), 3)  # 0.01 s per row, and 18 rows per second
    0.18
    """
    slopes = [
        (later - earlier) / (more - rows)
        for (_, rows, earlier), (_, more, later) in combinations(loads, 2)
        if more != rows
    ]
    if len(slopes) < MIN_SLOPES:
        return None
    first, last = loads[0][0], loads[-1][0]
    arrived = sum(rows for _, rows, _ in list(loads)[1:])
    return max(0.0, median(slopes)) * arrived / (last - first) if last > first else None


def _compute_progress(settled: Sequence[tuple[float, float]]) -> WatermarkProgress | None:
    """The rate of the watermark from the first observation to the last; after a single observation, that of time."""
    if not settled:
        return None
    (first, first_edge), (last, last_edge) = settled[0], settled[-1]
    rate = max(0.0, (last_edge - first_edge) / (last - first)) if last > first else 1.0
    return WatermarkProgress(last, last_edge, rate)


def _compute_selectivity(tasks: Iterable[Json]) -> list[float]:
    """The selectivity of a run in a list of one; empty if it read nothing."""
    counted = [task for task in tasks if "rows_out" in task]
    rows_in = sum(task["change"] or task["content"] for task in counted)
    return [sum(task["rows_out"] for task in counted) / rows_in] if rows_in else []


class SqlFlowCatalog(CatalogPart):
    """A `FlowQueries` over SQL. The first read of statistics is complete; later ones read only events since then."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._lock = Lock()
        self._last_event: int | None = None  # the newest event at the last read
        self._flows: dict[str, _FlowHistory] = {}
        self._statistics: dict[str, FlowStatistics] = {}

    @in_snapshot
    def find_identity(self, connection: Connection, flow: str) -> Identity | None:
        query = select(bindings.c.identity).where(bindings.c.name == flow, bindings.c.active)
        identity: Identity | None = connection.execute(query).scalar()
        return identity

    @in_snapshot
    def read_costs(self, connection: Connection, flows: Collection[str]) -> dict[tuple[str, str, str], Json]:
        query = select(bindings.c.name, costs.c.task, costs.c.variant, costs.c.model).join_from(costs, bindings)
        queries = (query.where(bindings.c.name.in_(batch)) for batch in split_batches(flows))
        rows = (row for query in queries for row in connection.execute(query))
        return {(row.name, row.task, row.variant): row.model for row in rows}

    def read_statistics(self) -> dict[str, FlowStatistics]:
        # The snapshot begins with the first statement, so it is current although the lock was waited for.
        with self._lock, self.database.open_snapshot() as connection:
            upto = connection.execute(select(func.max(events.c.id))).scalar() or 0
            if self._last_event is None or self._read_since(connection, _DECLARATION_EVENTS):
                self._flows = _read_all_flows(connection)
                self._statistics = {name: flow.compute_statistics(name) for name, flow in self._flows.items()}
            else:
                self._statistics |= {
                    name: self._flows[name].compute_statistics(name) for name in self._record_new_events(connection)
                }
            self._last_event = upto
            return self._statistics.copy()

    def _record_new_events(self, connection: Connection) -> set[str]:
        """Record the events since the last read; returns the names of the flows concerned."""
        firing_rows = [f for f in self._read_since(connection, _FIRING_EVENTS) if f.subject in self._flows]
        run_rows = [r for r in self._read_since(connection, _RUN_EVENTS) if r.subject in self._flows]
        for firing in firing_rows:
            self._flows[firing.subject].firing_times.append(firing.at)
        for run in run_rows:
            self._flows[run.subject].record_run(run)
        return {row.subject for row in (*firing_rows, *run_rows)}

    def _read_since(self, connection: Connection, query: Select[Any]) -> Sequence[AnyRow]:
        return connection.execute(query.where(events.c.id > self._last_event).order_by(events.c.id)).all()

    @in_snapshot
    def list(self, connection: Connection) -> list[RegisteredBinding]:
        rows = connection.execute(select(bindings).where(bindings.c.active).order_by(bindings.c.name))
        return [to_binding(row) for row in rows]


def _read_all_flows(connection: Connection) -> dict[str, _FlowHistory]:
    """The histories of all active flows, in six queries for any number of flows."""
    flows = _read_declared_flows(connection)
    limit = min(MAX_RUNS_READ, HISTORY_LENGTH * len(flows))
    finished_query = select(*_RUN_COLUMNS).where(*_FINISHED, _LIVE).order_by(runs.c.id.desc())
    requested_query = select(runs.c.subject, runs.c.created).where(runs.c.kind == RunKind.FLOW, _LIVE)
    fired_query = select(firings.c.flow, firings.c.at).order_by(firings.c.id.desc())
    for run in reversed(connection.execute(finished_query.limit(limit)).all()):
        if run.subject in flows:
            flows[run.subject].record_finish(run)
    for name, time in reversed(connection.execute(requested_query.order_by(runs.c.id.desc()).limit(limit)).all()):
        if name in flows:
            flows[name].request_times.append(time)
    for name, time in reversed(connection.execute(fired_query.limit(limit)).all()):
        if name in flows:
            flows[name].firing_times.append(time)
    return flows


def _read_declared_flows(connection: Connection) -> dict[str, _FlowHistory]:
    query = select(bindings, workflows.c.priority.label("workflow_priority")).join_from(bindings, workflows)
    flows = [(to_binding(row), row.workflow_priority) for row in connection.execute(query.where(bindings.c.active))]
    estimates, starts = _read_cost_estimates(connection), _read_last_starts(connection)
    writers: dict[str, set[str]] = defaultdict(set)
    for flow, _ in flows:
        for channel in flow.written_channels:
            writers[channel].add(flow.name)
    return {
        flow.name: _FlowHistory(
            flow.priority,
            workflow_priority,
            tuple(sorted({writer for c in flow.read_channels for writer in writers[c]} - {flow.name})),
            estimates.get(flow.name),
            starts.get(flow.name),
            flow.workflow,
        )
        for flow, workflow_priority in flows
    }


def _read_cost_estimates(connection: Connection) -> dict[str, float]:
    """The estimated seconds of a run, by flow: the sum of each task's fastest variant."""
    fastest: dict[tuple[str, str], float] = {}
    for row in connection.execute(select(bindings.c.name, costs.c.task, costs.c.model).join_from(costs, bindings)):
        key = (row.name, row.task)
        fastest[key] = min(row.model["usual"], fastest.get(key, row.model["usual"]))
    totals: dict[str, float] = defaultdict(float)
    for (flow, _), seconds in fastest.items():
        totals[flow] += seconds
    return dict(totals)


def _read_last_starts(connection: Connection) -> dict[str, float]:
    """The start time of each flow's last finished run, by name."""
    query = select(runs.c.subject, func.max(runs.c.started).label("last")).where(*_FINISHED).group_by(runs.c.subject)
    return {row.subject: row.last for row in connection.execute(query)}
