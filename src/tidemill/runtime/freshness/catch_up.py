"""Catch-up limits: a run of an overdue flow loads the first few periods of data, and the rest stays pending.

The limit is a time: of every channel whose changes a plan's runs read, they read the blocks that were visible by then.
So blocks are never split or reordered, and all runs of the plan read consistent inputs.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import inf

from tidemill.model.stateful import WindowTaskSpec
from tidemill.model.task import ReadMode, Task
from tidemill.ports.catalog import CatalogReader
from tidemill.ports.records import DeltaLink, Reader
from tidemill.runtime.freshness.planning import PlannedRun, RunPlan
from tidemill.scheduler.dispatcher import DispatchLimits
from tidemill.scheduler.job import Job, JobProfile, UpdateCost


@dataclass(frozen=True, slots=True)
class CatchUpLimit:
    """Limit of the pending data that one run loads: periods of the given seconds, and batches; 0: no limit."""

    periods: float
    period: float
    batches: int = 0  # the blocks that became visible at one time are a batch


def limit_plan(catalog: CatalogReader, plan: RunPlan, limit: CatchUpLimit | None) -> RunPlan:
    """Return the plan with the positions up to which its runs read now; the blocks that they leave are counted.

    A plan for a freshness target is limited only if all its runs read changes: a run that reads a full content would be
    ahead of the others, and its result less consistent than planned.
    """
    reads = {} if limit is None else dict(_iterate_reads(plan))
    if limit is None or (plan.decision is not None and not all(reads.values())):
        return plan
    pending = _find_pending_stops(catalog, [reader for reader, is_limited in reads.items() if is_limited])
    times = sorted({time for stops in pending.values() for time in stops.values()} - {-inf})
    count = _count_fitting_moments(times, limit)
    if count == len(times):
        return plan
    last = times[count - 1]
    left_blocks = sum(time > last for stops in pending.values() for time in stops.values())
    stops = {reader: max(seq for seq, time in stops.items() if time <= last) for reader, stops in pending.items()}
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


def _iterate_reads(plan: RunPlan) -> Iterator[tuple[Reader, bool]]:
    """Yield the reads of a plan on channels that none of its runs writes, and whether they can be limited.

    That are reads of changes, unless windows would time out without the events that a limit leaves for later.
    """
    runs = (*plan.prerequisites, *([] if plan.own_run is None else [plan.own_run]))
    written = frozenset[str]().union(*(run.binding.written_channels for run in runs))
    for run in runs:
        for task in run.binding.tasks:
            changed = {r.port for r in task.reads if r.mode is ReadMode.NEW and not _has_timeout(task)}
            for channel in {r.port for r in task.reads} - written - run.unmoved_channels:
                yield (run.binding.name, task.name, channel), channel in changed


def _count_fitting_moments(times: list[float], limit: CatchUpLimit) -> int:
    """Count the times that fit the limit, by the simulator's rule. The first of them ends a period."""
    if not times:
        return 0
    batches = deque((time, time) for time in times)
    job = Job(JobProfile("", limit.period, UpdateCost(0.0, 0.0)), 1.0, times[0] - limit.period, batches=batches)
    return DispatchLimits(limit.periods or None, batch_limit=limit.batches or None).count_batches(job)


def _find_pending_stops(catalog: CatalogReader, readers: Iterable[Reader]) -> dict[Reader, dict[int, float]]:
    """Find the positions where each reader may stop, with their times: its cursor at any time, or after a block."""
    cursors = {(c.binding, c.task, c.channel): c.position.seq for c in catalog.channels.read_cursors()}
    pending: dict[Reader, dict[int, float]] = {}
    for reader in readers:
        cursor, channel = cursors.get(reader, 0), reader[2]
        head, links = catalog.channels.read(channel).head.seq, catalog.blocks.list_delta_links(channel, cursor)
        pending[reader] = {cursor: -inf} | find_stops(links, cursor, head)
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
