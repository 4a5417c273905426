"""What forming windows of rows costs, for each combination of step and size."""

from __future__ import annotations

import time
from typing import Any

from tidemill.model.window import Extent, Unit, Window
from tidemill.stream.windows.former import QueueEntry
from tidemill.stream.windows.operator import WindowQueues

BATCH = 1_000  # events
_WAVE = 5  # events of each wave
_AMOUNTS = {Unit.TIME: (10_000, 30_000), Unit.TOKENS: (3, 5), Unit.WAVES: (1, 2)}
"""A step and a size in each unit; in time, microseconds for each group: an event comes every millisecond."""


def measure(*, events: int = 50_000, groups: int = 1_000) -> list[dict[str, Any]]:
    """Processor milliseconds for a thousand events, in batches of a thousand."""
    return [_point(step, size, events, groups) for step in Unit for size in Unit]


def _point(step: Unit, size: Unit, events: int, groups: int) -> dict[str, Any]:
    windows = WindowQueues(Window(Extent(size, _AMOUNTS[size][1] * _scale(size, groups)), _step(step, groups)))
    formed, began = 0, time.process_time()
    for first in range(0, events, BATCH):
        batch = [_event(number, groups) for number in range(first, first + BATCH)]
        result, _ = windows.run(batch, batch[-1][1].arrived)
        formed += len(result.windows)
    taken = time.process_time() - began
    return {"step": step.value, "size": size.value, "windows": formed, "ms_per_1000": round(taken * 1e6 / events, 2)}


def _step(unit: Unit, groups: int) -> Extent:
    return Extent(unit, _AMOUNTS[unit][0] * _scale(unit, groups))


def _scale(unit: Unit, groups: int) -> int:
    """Time goes on for all groups at once: a window in time is long enough for some events of each."""
    return groups if unit is Unit.TIME else 1


def _event(number: int, groups: int) -> tuple[int, QueueEntry]:
    """Groups take turns; each has waves of so many events, one after the other."""
    turn = number // groups
    last = turn % _WAVE == _WAVE - 1
    return number % groups, QueueEntry(number, number * 1_000, number * 1_000, turn // _WAVE, closes=last)
