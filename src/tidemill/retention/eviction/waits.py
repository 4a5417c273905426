"""Waits for the next demand: estimates hazards from all waits so far, including open ones.

A wait begins with a birth or a demand. A waiting dataset is in a *popularity class*: its popularity at the beginning of
the wait, and its recency class (`recency.py`), which can change during the wait. For each kind of task, class and
length of the wait the *hazard* is estimated: of the datasets that waited that long, the share that the next submission
demands. Rare cells are estimated from more frequent ones: a cell by its class over all kinds, times the factor of its
kind.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from math import inf

import numpy as np
from numpy.typing import NDArray

from tidemill.retention.eviction.recency import RecencyClass

Figures = NDArray[np.float64]
Numbers = NDArray[np.int32]

EDGES = (1, 2, 3, 4, *(edge for power in range(2, 14) for edge in (3 << (power - 1), 4 << (power - 1))))
"""Lengths of waits, in submissions of the homes, at which another hazard begins: two for each doubling."""
ENDS = (*EDGES[1:], inf)
LENGTHS = len(EDGES)
POPULARITY_LIMITS = (0.75, 1.5, 3.0, 6.0, 12.0)
"""Decayed demands at which the next popularity class begins."""
POPULARITY_CLASSES = len(RecencyClass) * (len(POPULARITY_LIMITS) + 1)
PRIOR_DEMANDS = 2.0
"""Weight of the estimate from other cells, in demands."""

WIDTHS = np.diff([*EDGES, 2 * EDGES[-1]]).astype(np.float64)
BEFORE = np.tri(LENGTHS, k=-1, dtype=np.bool_)
DENSITY_BATCH = 500
"""Cells whose densities are computed together: each takes some kilobytes meanwhile."""


def find_popularity_class(demands: float, recency: int) -> int:
    return len(RecencyClass) * bisect_right(POPULARITY_LIMITS, demands) + recency


class WaitStatistics:
    """Demands and waiting time by kind, popularity class and length. A wait without a demand adds only time."""

    def __init__(self) -> None:
        self._demands: list[array[float]] = []
        self._time: list[array[float]] = []

    def add_kind(self) -> None:
        for table in (self._demands, self._time):
            table += [array("d", bytes(8 * LENGTHS)) for _ in range(POPULARITY_CLASSES)]

    def record_wait(self, kind: int, popularity: int, before: float, waited: float, *, demanded: bool) -> None:
        """Record a wait in a class from length `before` to `waited`; `demanded`: a demand ended it."""
        if waited < 1:
            return
        cell = kind * POPULARITY_CLASSES + popularity
        last = bisect_right(EDGES, waited) - 1
        for interval in range(bisect_right(EDGES, before + 1) - 1, last + 1):
            self._time[cell][interval] += _clip_wait(interval, waited) - _clip_wait(interval, before)
        self._demands[cell][last] += demanded

    def estimate_rates(
        self, kind: Numbers, popularity: Numbers, before: Figures, waited: Figures, is_observation: NDArray[np.bool_]
    ) -> Figures:
        """Estimate the demands per submission of each waiting dataset; `is_observation` selects the observations."""
        cells = kind * POPULARITY_CLASSES + popularity
        open_time = self._sum_open_waits(cells[is_observation], before[is_observation], waited[is_observation])
        table = _compute_densities(_estimate_hazards(_to_table(self._demands), _to_table(self._time) + open_time))
        interval = np.searchsorted(EDGES, waited + 1, side="right") - 1
        rates: Figures = table[cells, interval]
        return rates

    def _sum_open_waits(self, cells: Numbers, before: Figures, waited: Figures) -> Figures:
        """Sum the time of waits that have not ended."""
        parts = []
        for edge, end in zip(EDGES, ENDS, strict=True):
            spent = np.clip(waited + 1, edge, end) - np.clip(before + 1, edge, end)
            parts.append(np.bincount(cells, spent, minlength=len(self._time)))
        return np.stack(parts, axis=1)


def _clip_wait(interval: int, waited: float) -> float:
    """Return the part of a wait of this length that is in an interval."""
    return min(max(waited + 1, EDGES[interval]), ENDS[interval]) - EDGES[interval]


def _to_table(table: list[array[float]]) -> Figures:
    return np.array(table, dtype=np.float64).reshape(-1, LENGTHS)


def _estimate_hazards(demands: Figures, time: Figures) -> Figures:
    """Estimate the hazard of each cell, shrunk towards that of its class, then of its length, then of all cells."""
    shape = (-1, POPULARITY_CLASSES, LENGTHS)
    demand_counts, wait_time = demands.reshape(shape), time.reshape(shape)
    overall = _shrink_ratio(demand_counts.sum(), wait_time.sum(), np.float64(0.5))
    by_length = _shrink_ratio(demand_counts.sum(axis=(0, 1)), wait_time.sum(axis=(0, 1)), overall)
    by_mood = _shrink_ratio(demand_counts.sum(axis=0), wait_time.sum(axis=0), by_length)
    expected = (wait_time * by_mood).sum(axis=(1, 2))
    of_kind = (demand_counts.sum(axis=(1, 2)) + PRIOR_DEMANDS) / (expected + PRIOR_DEMANDS)
    return _shrink_ratio(demand_counts, wait_time, by_mood * of_kind[:, None, None]).reshape(-1, LENGTHS)


def _shrink_ratio(count: Figures | np.float64, time: Figures | np.float64, towards: Figures | np.float64) -> Figures:
    return np.asarray((count + PRIOR_DEMANDS) / (time + PRIOR_DEMANDS / towards))


def _compute_densities(hazards: Figures) -> Figures:
    """Return for each cell the best ratio, over all holding times, of demands to the time for which space is used.

    So a dataset in a lull has the value that it will have after it, for the time until then.
    """
    parts = np.array_split(hazards, 1 + len(hazards) // DENSITY_BATCH)
    return np.concatenate([_compute_part_densities(np.clip(part, 1e-12, 0.999)) for part in parts])


def _compute_part_densities(chance: Figures) -> Figures:
    """Compute densities. Axes: cells, current interval of the wait, and end of the holding time."""
    no_demand = (1 - chance) ** WIDTHS
    survival = np.where(BEFORE, 1.0, no_demand[:, None, :])
    remaining = np.cumprod(survival, axis=2)
    demanded = np.concatenate([np.ones_like(remaining[:, :, :1]), remaining[:, :, :-1]], axis=2) - remaining
    holding_time = np.cumsum(demanded / chance[:, None, :], axis=2)
    ratios = np.divide(
        np.cumsum(demanded, axis=2), holding_time, out=np.zeros_like(holding_time), where=holding_time > 0
    )
    best: Figures = ratios.max(axis=2)
    return best
