"""How long datasets wait for the next demand: learnt from all waits so far, those that still last included.

A wait begins with a birth or a demand. Who waits is in a *mood*: how popular the dataset was at the beginning, and how
it stands (`standing.py`), which can change while it waits. For each kind of task, mood and length of waiting the
*hazard* is learnt: of those that waited so long, the share that the next submission demands. What is seldom seen is
judged by what is seen more often: a cell by its mood over all kinds, times how the kind does.
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
"""Lengths of waiting, in submissions of those waited for, at which another hazard begins: two to each doubling."""
ENDS = (*EDGES[1:], inf)
LENGTHS = len(EDGES)
POPULAR = (0.75, 1.5, 3.0, 6.0, 12.0)
"""Decayed demands from which on a dataset is more popular than those below."""
MOODS = len(RecencyClass) * (len(POPULAR) + 1)
WEIGHT = 2.0
"""Demands that the judgement by others counts for."""

WIDTHS = np.diff([*EDGES, 2 * EDGES[-1]]).astype(np.float64)
BEFORE = np.tri(LENGTHS, k=-1, dtype=np.bool_)
AT_ONCE = 500
"""Cells whose densities are computed together: each takes some kilobytes meanwhile."""


def find_popularity_class(demands: float, standing: int) -> int:
    return len(RecencyClass) * bisect_right(POPULAR, demands) + standing


class WaitStatistics:
    """Demands and waiting time by kind, mood and length. What did not end by a demand counts as time alone."""

    def __init__(self) -> None:
        self._demands: list[array[float]] = []
        self._time: list[array[float]] = []

    def add_kind(self) -> None:
        for table in (self._demands, self._time):
            table += [array("d", bytes(8 * LENGTHS)) for _ in range(MOODS)]

    def record_wait(self, kind: int, mood: int, before: float, waited: float, *, demanded: bool) -> None:
        """A dataset was in a mood since it had waited `before`, and has waited so long now; perhaps it was demanded."""
        if waited < 1:
            return
        cell = kind * MOODS + mood
        last = bisect_right(EDGES, waited) - 1
        for at in range(bisect_right(EDGES, before + 1) - 1, last + 1):
            self._time[cell][at] += _clip_wait(at, waited) - _clip_wait(at, before)
        self._demands[cell][last] += demanded

    def estimate_rates(
        self, kind: Numbers, mood: Numbers, before: Figures, waited: Figures, counts: NDArray[np.bool_]
    ) -> Figures:
        """Demands to be expected a submission for each dataset that waits; `counts`: is it one to learn from?"""
        cells = kind * MOODS + mood
        lasting = self._sum_open_waits(cells[counts], before[counts], waited[counts])
        table = _compute_densities(_estimate_hazards(_to_table(self._demands), _to_table(self._time) + lasting))
        at = np.searchsorted(EDGES, waited + 1, side="right") - 1
        rates: Figures = table[cells, at]
        return rates

    def _sum_open_waits(self, cells: Numbers, before: Figures, waited: Figures) -> Figures:
        """The time of waits that have not ended."""
        parts = []
        for edge, end in zip(EDGES, ENDS, strict=True):
            spent = np.clip(waited + 1, edge, end) - np.clip(before + 1, edge, end)
            parts.append(np.bincount(cells, spent, minlength=len(self._time)))
        return np.stack(parts, axis=1)


def _clip_wait(at: int, waited: float) -> float:
    """How much of a wait that lasted so long fell between an edge and the next."""
    return min(max(waited + 1, EDGES[at]), ENDS[at]) - EDGES[at]


def _to_table(table: list[array[float]]) -> Figures:
    return np.array(table, dtype=np.float64).reshape(-1, LENGTHS)


def _estimate_hazards(demands: Figures, time: Figures) -> Figures:
    """Of each cell, drawn towards that of its mood, which is drawn towards that of its length, and so on to all."""
    shape = (-1, MOODS, LENGTHS)
    many, spent = demands.reshape(shape), time.reshape(shape)
    overall = _shrink_ratio(many.sum(), spent.sum(), np.float64(0.5))
    by_length = _shrink_ratio(many.sum(axis=(0, 1)), spent.sum(axis=(0, 1)), overall)
    by_mood = _shrink_ratio(many.sum(axis=0), spent.sum(axis=0), by_length)
    expected = (spent * by_mood).sum(axis=(1, 2))
    of_kind = (many.sum(axis=(1, 2)) + WEIGHT) / (expected + WEIGHT)
    return _shrink_ratio(many, spent, by_mood * of_kind[:, None, None]).reshape(-1, LENGTHS)


def _shrink_ratio(many: Figures | np.float64, spent: Figures | np.float64, towards: Figures | np.float64) -> Figures:
    return np.asarray((many + WEIGHT) / (spent + WEIGHT / towards))


def _compute_densities(hazards: Figures) -> Figures:
    """For each cell the best ratio, over all times to hold on, of demands to the time for which space is held.

    So what is in a lull counts as what it will be worth after it, for the time that it takes until then.
    """
    parts = np.array_split(hazards, 1 + len(hazards) // AT_ONCE)
    return np.concatenate([_compute_part_densities(np.clip(part, 1e-12, 0.999)) for part in parts])


def _compute_part_densities(chance: Figures) -> Figures:
    """Axes: cells, where the wait is, and how far one holds on; nothing happens before where the wait is."""
    missed = (1 - chance) ** WIDTHS
    ahead = np.where(BEFORE, 1.0, missed[:, None, :])
    left = np.cumprod(ahead, axis=2)
    came = np.concatenate([np.ones_like(left[:, :, :1]), left[:, :, :-1]], axis=2) - left
    held = np.cumsum(came / chance[:, None, :], axis=2)
    ratios = np.divide(np.cumsum(came, axis=2), held, out=np.zeros_like(held), where=held > 0)
    best: Figures = ratios.max(axis=2)
    return best
