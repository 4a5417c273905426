"""Chopping: of an update that is overdue a run loads the first few periods of data, and the rest stays pending.

The cut is a moment: of every channel whose changes the flow takes, the run reads the blocks that were visible by then.
So blocks stay whole and in their order, and what the flow's tasks read together belongs together.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tidemill.model.block import Block
from tidemill.model.change import Updates
from tidemill.model.flow import BoundFlow
from tidemill.model.run import Run
from tidemill.model.stateful import WindowTaskSpec
from tidemill.model.task import ReadMode, Task
from tidemill.ports.catalog import CatalogReader
from tidemill.ports.records import DeltaLink
from tidemill.runtime.runs.execution import ALL_THERE_IS, Executor, Upto
from tidemill.scheduler.job import Job, JobProfile, UpdateCost

Reader = tuple[str, str]
"""A task, and a channel whose changes it takes."""


@dataclass(frozen=True, slots=True)
class CatchUpLimit:
    """How much of what waits a run loads at most: so many periods of so many seconds."""

    periods: float
    period: float


@dataclass(frozen=True, slots=True)
class ReadLimit:
    """How far a run reads, how many blocks it leaves to the next, and when the first of them became visible."""

    upto: Upto
    left: int
    rest: float | None


WHOLE = ReadLimit(ALL_THERE_IS, 0, None)


@dataclass(frozen=True, slots=True)
class _PendingBlocks:
    """What waits for a task on a channel: where it stands, and each place it may stop at, with its moment."""

    at: int
    stops: Mapping[int, float]

    def find_stop(self, moment: float) -> int:
        return max((seq for seq, visible in self.stops.items() if visible <= moment), default=self.at)


def compute_read_limit(catalog: CatalogReader, binding: BoundFlow, portion: CatchUpLimit | None) -> ReadLimit:
    """How far a run of a bound flow reads now; its tasks have one variant each."""
    if portion is None:
        return WHOLE
    waiting = _find_pending_blocks(catalog, binding)
    moments = sorted({moment for each in waiting.values() for moment in each.stops.values()})
    grain = _count_fitting_moments(binding.name, moments, portion)
    if grain == len(moments):
        return WHOLE
    last = moments[grain - 1]
    left = sum(moment > last for each in waiting.values() for moment in each.stops.values())
    return ReadLimit({reader: each.find_stop(last) for reader, each in waiting.items()}, left, moments[grain])


def attempt_run(
    executor: Executor, run: Run, binding: BoundFlow, updates: Mapping[str, Updates], portion: CatchUpLimit | None
) -> list[Block] | None:
    """One attempt at a run that loads a portion of what waits at most; what it leaves is due when it is committed."""
    found = compute_read_limit(executor.catalog, binding, portion)
    told = {"left": found.left} if found.left else {}
    return executor.attempt_run(run, binding, updates, upto=found.upto, told=told, rest=found.rest)


def _count_fitting_moments(flow: str, moments: list[float], portion: CatchUpLimit) -> int:
    """How many of the moments fit, as the simulator has it. The first of them ends a period."""
    if not moments:
        return 0
    profile = JobProfile(flow, portion.period, UpdateCost(0.0, 0.0))
    batches = deque((moment, moment) for moment in moments)
    return Job(profile, 1.0, fresh=moments[0] - portion.period, batches=batches).count_catch_up_batches(portion.periods)


def _find_pending_blocks(catalog: CatalogReader, binding: BoundFlow) -> dict[Reader, _PendingBlocks]:
    cursors = {(c.task, c.channel): c.position.seq for c in catalog.read_cursors() if c.binding == binding.name}
    found: dict[Reader, _PendingBlocks] = {}
    for reader in _find_change_readers(binding):
        at = cursors.get(reader, 0)
        found[reader] = _PendingBlocks(
            at, find_stops(catalog.list_delta_links(reader[1], at), at, catalog.read_channel(reader[1]).head.seq)
        )
    return found


def _find_change_readers(binding: BoundFlow) -> set[Reader]:
    """Who takes the changes of what. What is read whole costs the same however little of it is new."""
    return {
        (task.name, read.port)
        for task in binding.tasks
        for read in task.reads
        if read.mode is ReadMode.NEW and read.port not in binding.written_channels and not _has_timeout(task)
    }


def _has_timeout(task: Task) -> bool:
    """Windows that time out would be formed without the events that were left, and these would be late."""
    code = task.variant.code
    return isinstance(code, WindowTaskSpec) and code.window.timeout is not None


def find_stops(links: Iterable[DeltaLink], since: int, head: int) -> dict[int, float]:
    """Where a reader may stop on its way from `since` to the head, and from when on; none if no deltas lead there."""
    in_order = list(links)
    there, back = {since}, {head}
    for link in in_order:
        if link.since in there:
            there.add(link.seq)
    for link in reversed(in_order):
        if link.seq in back:
            back.add(link.since)
    return {link.seq: link.visible for link in in_order if link.seq in there & back} if head in there else {}
