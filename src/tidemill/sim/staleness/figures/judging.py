"""How conclusions are told from noise: one place for the words and their tolerances.

A lateness of 1 is what tables have anyway. What dispatching can be blamed for is what it *adds* to that.
"""

from __future__ import annotations

from collections.abc import Iterable
from statistics import fmean

from tidemill.sim.staleness.experiment import Curve

NOISE = 0.05
"""Ways that add this much more or less lateness, as a share, are the same."""

CLEARLY = 0.20
"""Ways that add this much more differ for everybody to see."""

LEAST = 1e-3
"""Who adds less adds nothing."""

SAME = 0.02
"""Points at which lateness differs by this, as a share, are the same."""


def shared(*curves: Curve) -> list[float]:
    """Where all have a point."""
    return sorted(set.intersection(*(set(curve) for curve in curves)))


def times(one: Curve, other: Curve, at: Iterable[float] | None = None) -> float:
    """How many times as much lateness one adds as the other, on average."""
    where = shared(one, other) if at is None else list(at)
    return _added(one, where) / _added(other, where)


def _added(curve: Curve, at: Iterable[float]) -> float:
    return max(LEAST, fmean(curve[x] - 1 for x in at))


def never_worse(one: Curve, other: Curve) -> bool:
    return all(one[x] <= other[x] * (1 + SAME) for x in shared(one, other))


def best_on_average(one: Curve, others: Iterable[Curve]) -> bool:
    return all(times(one, other) <= 1 + NOISE for other in others)
