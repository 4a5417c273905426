"""Catch-up limits: a run of an overdue flow loads the first few periods of data, and the rest stays pending.

The limit is a time: of every channel whose changes a plan's runs read, they read the blocks that were visible by then.
So blocks are never split or reordered, and all runs of the plan read consistent inputs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from tidemill.model.stateful import WindowTaskSpec
from tidemill.model.task import ReadMode, Task
from tidemill.ports.catalog import CatalogReader
from tidemill.ports.records import DeltaLink
from tidemill.runtime.freshness.planning import PlannedRun, RunPlan
from tidemill.scheduler.dispatcher import DispatchLimits
from tidemill.scheduler.job import Job, JobProfile, UpdateCost

Reader = tuple[str, str, str]
"""A flow, a task of it, and a channel whose changes the task reads."""


@dataclass(frozen=True, slots=True)
class CatchUpLimit:
    """Limit of the pending data that one run loads: periods of the given seconds, and batches; 0: no limit."""

    periods: float
    period: float
    batches: int = 0  # the blocks that became visible at one time are a batch


@dataclass(frozen=True, slots=True)
class _PendingBlocks:
    """The pending blocks of a task on a channel: its cursor, and each position where it may stop, with its time."""

    cursor: int
    stops: Mapping[int, float]

    def find_stop(self, time: float) -> int:
        return max((seq for seq, visible in self.stops.items() if visible <= time), default=self.cursor)


def limit_plan(catalog: CatalogReader, plan: RunPlan, limit: CatchUpLimit | None) -> RunPlan:
    """Return the plan with the positions up to which its runs read now; the blocks that they leave are counted.

    A plan for a freshness target is limited only if all its runs read changes: a run that reads a full content would be
    ahead of the others, and its result less consistent than planned.
    """
    if limit is None or (plan.decision is not None and not all(r.is_limited for r in _iterate_reads(plan))):
        return plan
    pending = _find_pending_blocks(catalog, {r.key for r in _iterate_reads(plan) if r.is_limited})
    times = sorted({time for blocks in pending.values() for time in blocks.stops.values()})
    count = _count_fitting_moments(times, limit)
    if count == len(times):
        return plan
    left_blocks = sum(time > times[count - 1] for blocks in pending.values() for time in blocks.stops.values())
    stops = {reader: blocks.find_stop(times[count - 1]) for reader, blocks in pending.items()}
    return replace(
        plan,
        prerequisites=tuple(_limit_run(run, stops) for run in plan.prerequisites),
        own_run=plan.own_run and _limit_run(plan.own_run, stops),
        left_blocks=left_blocks,
        oldest_unread=times[count],
    )


def _limit_run(run: PlannedRun, stops: Mapping[Reader, int]) -> PlannedRun:
    limited = {(task, channel): seq for (flow, task, channel), seq in stops.items() if flow == run.binding.name}
    return replace(run, positions={**run.positions, **limited})


@dataclass(frozen=True, slots=True)
class _PlanRead:
    """A task of a plan, and a channel that it reads and that no run of the plan writes."""

    key: Reader
    reads_change: bool
    has_timeout: bool  # its windows time out: they would close without the events that a limit leaves for later

    @property
    def is_limited(self) -> bool:
        return self.reads_change and not self.has_timeout


def _iterate_reads(plan: RunPlan) -> Iterator[_PlanRead]:
    """Yield the reads of a plan that move a cursor or read a content."""
    runs = (*plan.prerequisites, *([] if plan.own_run is None else [plan.own_run]))
    written = frozenset[str]().union(*(run.binding.written_channels for run in runs))
    for run in runs:
        for task in run.binding.tasks:
            changed = {r.port for r in task.reads if r.mode is ReadMode.NEW}
            for channel in {r.port for r in task.reads} - written - run.unmoved_channels:
                yield _PlanRead((run.binding.name, task.name, channel), channel in changed, _has_timeout(task))


def _count_fitting_moments(times: list[float], limit: CatchUpLimit) -> int:
    """Count the times that fit the limit, by the simulator's rule. The first of them ends a period."""
    if not times:
        return 0
    batches = deque((time, time) for time in times)
    job = Job(JobProfile("", limit.period, UpdateCost(0.0, 0.0)), 1.0, times[0] - limit.period, batches=batches)
    return DispatchLimits(limit.periods or None, batch_limit=limit.batches or None).count_batches(job)


def _find_pending_blocks(catalog: CatalogReader, readers: Iterable[Reader]) -> dict[Reader, _PendingBlocks]:
    cursors = {(c.binding, c.task, c.channel): c.position.seq for c in catalog.channels.read_cursors()}
    pending: dict[Reader, _PendingBlocks] = {}
    for reader in readers:
        cursor, channel = cursors.get(reader, 0), reader[2]
        head = catalog.channels.read(channel).head.seq
        stops = find_stops(catalog.blocks.list_delta_links(channel, cursor), cursor, head)
        pending[reader] = _PendingBlocks(cursor, stops)
    return pending


def _has_timeout(task: Task) -> bool:
    code = task.variant.code
    return isinstance(code, WindowTaskSpec) and code.window.timeout is not None


def find_stops(links: Iterable[DeltaLink], since: int, head: int) -> dict[int, float]:
    """Return the positions where a reader may stop from `since` to the head, with their times; none without deltas."""
    in_order = list(links)
    from_start, to_head = {since}, {head}
    for link in in_order:
        if link.since in from_start:
            from_start.add(link.seq)
    for link in reversed(in_order):
        if link.seq in to_head:
            to_head.add(link.since)
    reached = from_start & to_head if head in from_start else set()
    return {link.seq: link.visible for link in in_order if link.seq in reached}
