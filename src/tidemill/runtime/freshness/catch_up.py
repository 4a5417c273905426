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
from tidemill.model.flow import Binding
from tidemill.model.run import Run
from tidemill.model.stateful import Windowed
from tidemill.model.task import Mode, Task
from tidemill.ports.catalog import CatalogReader
from tidemill.ports.records import Link
from tidemill.runtime.runs.execution import ALL_THERE_IS, Executor, Upto
from tidemill.scheduler.job import Cost, Job, Profile

Reader = tuple[str, str]
"""A task, and a channel whose changes it takes."""


@dataclass(frozen=True, slots=True)
class Portion:
    """How much of what waits a run loads at most: so many periods of so many seconds."""

    periods: float
    period: float


@dataclass(frozen=True, slots=True)
class Cut:
    """How far a run reads, how many blocks it leaves to the next, and when the first of them became visible."""

    upto: Upto
    left: int
    rest: float | None


WHOLE = Cut(ALL_THERE_IS, 0, None)


@dataclass(frozen=True, slots=True)
class _Waiting:
    """What waits for a task on a channel: where it stands, and each place it may stop at, with its moment."""

    at: int
    stops: Mapping[int, float]

    def until(self, moment: float) -> int:
        return max((seq for seq, visible in self.stops.items() if visible <= moment), default=self.at)


def cut(catalog: CatalogReader, binding: Binding, portion: Portion | None) -> Cut:
    """How far a run of a bound flow reads now; its tasks have one variant each."""
    if portion is None:
        return WHOLE
    waiting = _waiting(catalog, binding)
    moments = sorted({moment for each in waiting.values() for moment in each.stops.values()})
    grain = _grain(binding.name, moments, portion)
    if grain == len(moments):
        return WHOLE
    last = moments[grain - 1]
    left = sum(moment > last for each in waiting.values() for moment in each.stops.values())
    return Cut({reader: each.until(last) for reader, each in waiting.items()}, left, moments[grain])


def attempt(
    executor: Executor, run: Run, binding: Binding, updates: Mapping[str, Updates], portion: Portion | None
) -> list[Block] | None:
    """One attempt at a run that loads a portion of what waits at most; what it leaves is due when it is committed."""
    found = cut(executor.catalog, binding, portion)
    told = {"left": found.left} if found.left else {}
    return executor.attempt(run, binding, updates, upto=found.upto, told=told, rest=found.rest)


def _grain(flow: str, moments: list[float], portion: Portion) -> int:
    """How many of the moments fit, as the simulator has it. The first of them ends a period."""
    if not moments:
        return 0
    profile = Profile(flow, portion.period, Cost(0.0, 0.0))
    batches = deque((moment, moment) for moment in moments)
    return Job(profile, 1.0, fresh=moments[0] - portion.period, batches=batches).chopped(portion.periods)


def _waiting(catalog: CatalogReader, binding: Binding) -> dict[Reader, _Waiting]:
    cursors = {(c.task, c.channel): c.position.seq for c in catalog.cursors() if c.binding == binding.name}
    found: dict[Reader, _Waiting] = {}
    for reader in _readers(binding):
        at = cursors.get(reader, 0)
        found[reader] = _Waiting(at, stops(catalog.links(reader[1], at), at, catalog.channel(reader[1]).head.seq))
    return found


def _readers(binding: Binding) -> set[Reader]:
    """Who takes the changes of what. What is read whole costs the same however little of it is new."""
    return {
        (task.name, read.port)
        for task in binding.tasks
        for read in task.reads
        if read.mode is Mode.NEW and read.port not in binding.written and not _goes_by_the_clock(task)
    }


def _goes_by_the_clock(task: Task) -> bool:
    """Windows that time out would be formed without the events that were left, and these would be late."""
    code = task.variant.code
    return isinstance(code, Windowed) and code.window.timeout is not None


def stops(links: Iterable[Link], since: int, head: int) -> dict[int, float]:
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
