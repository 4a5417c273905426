"""Cost of forming windows of rows, for each combination of step and size."""

from __future__ import annotations

import time
from typing import Any

from tidemill.model.window import Extent, Unit, Window
from tidemill.stream.windows.former import QueueEntry
from tidemill.stream.windows.operator import WindowQueues

BATCH = 1_000  # events
_WAVE = 5  # events of each wave
_AMOUNTS = {Unit.TIME: (10_000, 30_000), Unit.TOKENS: (3, 5), Unit.WAVES: (1, 2)}
"""A step and a size in each unit; in time, microseconds for each group: one event arrives every millisecond."""


def measure(*, events: int = 50_000, groups: int = 1_000) -> list[dict[str, Any]]:
    """Processor milliseconds for a thousand events, in batches of a thousand."""
    return [_measure_point(step, size, events, groups) for step in Unit for size in Unit]


def _measure_point(step: Unit, size: Unit, events: int, groups: int) -> dict[str, Any]:
    windows = WindowQueues(Window(Extent(size, _AMOUNTS[size][1] * _get_scale(size, groups)), _get_step(step, groups)))
    window_count, began = 0, time.process_time()
    for first in range(0, events, BATCH):
        batch = [_create_event(number, groups) for number in range(first, first + BATCH)]
        result, _ = windows.run(batch, batch[-1][1].arrived)
        window_count += len(result.windows)
    seconds = time.process_time() - began
    return {
        "step": step.value,
        "size": size.value,
        "windows": window_count,
        "ms_per_1000": round(seconds * 1e6 / events, 2),
    }


def _get_step(unit: Unit, groups: int) -> Extent:
    return Extent(unit, _AMOUNTS[unit][0] * _get_scale(unit, groups))


def _get_scale(unit: Unit, groups: int) -> int:
    """The factor of time windows: all groups share one clock, so a window must contain some events of each group."""
    return groups if unit is Unit.TIME else 1


def _create_event(number: int, groups: int) -> tuple[int, QueueEntry]:
    """Groups alternate; each has consecutive waves of `_WAVE` events."""
    turn = number // groups
    last = turn % _WAVE == _WAVE - 1
    return number % groups, QueueEntry(number, number * 1_000, number * 1_000, turn // _WAVE, closes=last)
