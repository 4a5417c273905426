"""Catch-up limits: a run of an overdue flow loads the first few periods of data, and the rest stays pending.

The limit is a time: of every channel whose changes the flow reads, the run reads the blocks that were visible by then.
So blocks are never split or reordered, and the flow's tasks read consistent inputs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tidemill.model.flow import BoundFlow
from tidemill.model.stateful import WindowTaskSpec
from tidemill.model.task import ReadMode, Task
from tidemill.ports.catalog import CatalogReader
from tidemill.ports.records import DeltaLink
from tidemill.runtime.runs.execution import NO_READ_LIMIT, ReadPositions
from tidemill.scheduler.job import Job, JobProfile, UpdateCost

Reader = tuple[str, str]
"""A task, and a channel whose changes it reads."""


@dataclass(frozen=True, slots=True)
class CatchUpLimit:
    """Limit of the pending data that one run loads: a number of periods of the given seconds."""

    periods: float
    period: float


@dataclass(frozen=True, slots=True)
class ReadLimit:
    """The positions up to which a run reads, the number of blocks that it leaves, and the time of the first of them."""

    positions: ReadPositions
    left_blocks: int
    oldest_unread: float | None


UNLIMITED = ReadLimit(NO_READ_LIMIT, 0, None)


@dataclass(frozen=True, slots=True)
class _PendingBlocks:
    """The pending blocks of a task on a channel: its cursor, and each position where it may stop, with its time."""

    cursor: int
    stops: Mapping[int, float]

    def find_stop(self, time: float) -> int:
        return max((seq for seq, visible in self.stops.items() if visible <= time), default=self.cursor)


def compute_read_limit(catalog: CatalogReader, binding: BoundFlow, limit: CatchUpLimit | None) -> ReadLimit:
    """Compute how far a run of a bound flow reads now; its tasks have one variant each."""
    if limit is None:
        return UNLIMITED
    pending = _find_pending_blocks(catalog, binding)
    times = sorted({time for blocks in pending.values() for time in blocks.stops.values()})
    count = _count_fitting_moments(binding.name, times, limit)
    if count == len(times):
        return UNLIMITED
    last = times[count - 1]
    left_blocks = sum(time > last for blocks in pending.values() for time in blocks.stops.values())
    return ReadLimit({reader: blocks.find_stop(last) for reader, blocks in pending.items()}, left_blocks, times[count])


def _count_fitting_moments(flow: str, times: list[float], limit: CatchUpLimit) -> int:
    """Count the times that fit the limit, by the simulator's rule. The first of them ends a period."""
    if not times:
        return 0
    profile = JobProfile(flow, limit.period, UpdateCost(0.0, 0.0))
    batches = deque((time, time) for time in times)
    return Job(profile, 1.0, fresh=times[0] - limit.period, batches=batches).count_catch_up_batches(limit.periods)


def _find_pending_blocks(catalog: CatalogReader, binding: BoundFlow) -> dict[Reader, _PendingBlocks]:
    cursors = {(c.task, c.channel): c.position.seq for c in catalog.read_cursors() if c.binding == binding.name}
    pending: dict[Reader, _PendingBlocks] = {}
    for reader in _find_change_readers(binding):
        cursor = cursors.get(reader, 0)
        pending[reader] = _PendingBlocks(
            cursor,
            find_stops(catalog.list_delta_links(reader[1], cursor), cursor, catalog.read_channel(reader[1]).head.seq),
        )
    return pending


def _find_change_readers(binding: BoundFlow) -> set[Reader]:
    """Find the tasks that read changes, with their channels; a full read costs the same however little is new."""
    return {
        (task.name, read.port)
        for task in binding.tasks
        for read in task.reads
        if read.mode is ReadMode.NEW and read.port not in binding.written_channels and not _has_timeout(task)
    }


def _has_timeout(task: Task) -> bool:
    """Tell whether the task's windows time out: they would close without the events that a limit leaves for later."""
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
    return (
        {link.seq: link.visible for link in in_order if link.seq in from_start & to_head} if head in from_start else {}
    )
