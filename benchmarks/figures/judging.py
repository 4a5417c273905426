"""How curves are compared: one measure, and one place for the words and their tolerances.

The measure is *added lateness*. Tables have a lateness of 1 anyway; what dispatching can be blamed for is what it adds.
All comparisons of two curves are strict in one direction, so none of them holds with the curves swapped.
"""

from __future__ import annotations

from collections.abc import Iterable
from statistics import fmean

from benchmarks.figures.experiment import Curve

NOISE = 0.05
"""Ways whose added lateness differs by no more, as a share of the larger, are the same."""

CLEARLY = 0.20
"""Ways whose added lateness differs by more than this, as a share of the larger, differ clearly."""

VISIBLE = 0.01
"""At one load, ways whose lateness differs by no more are the same, whatever the share."""

MIN_ADDED = 1e-3
"""The least added lateness, on average, that is told from none."""


def find_shared_points(*curves: Curve) -> list[float]:
    """Where all have a point."""
    return sorted(set.intersection(*(set(curve) for curve in curves)))


def compute_ratio(one: Curve, other: Curve, at: Iterable[float] | None = None) -> float:
    """Lateness that one adds on average over loads, in multiples of what the other adds."""
    loads = find_shared_points(one, other) if at is None else list(at)
    return _compute_added(one, loads) / _compute_added(other, loads)


def _compute_added(curve: Curve, loads: Iterable[float]) -> float:
    return max(MIN_ADDED, fmean(curve[x] - 1 for x in loads))


def is_better(one: Curve, other: Curve, at: Iterable[float] | None = None, by: float = NOISE) -> bool:
    """Does one add less on average, by more than this share?"""
    return compute_ratio(one, other, at) < 1 - by


def is_alike(one: Curve, other: Curve, at: Iterable[float] | None = None, by: float = NOISE) -> bool:
    loads = None if at is None else list(at)
    return not is_better(one, other, loads, by) and not is_better(other, one, loads, by)


def compare(one: Curve, other: Curve, x: float) -> int:
    """At one load: -1 if one is less late than the other, 1 if it is later, 0 if they are the same."""
    difference = one[x] - other[x]
    largest = max(one[x], other[x]) - 1
    if abs(difference) <= max(VISIBLE, NOISE * largest):
        return 0
    return 1 if difference > 0 else -1


def is_nowhere_later(one: Curve, other: Curve) -> bool:
    return all(compare(one, other, x) <= 0 for x in find_shared_points(one, other))


def find_crossing(one: Curve, other: Curve) -> float | None:
    """The load from which on one is later, if it is less late below it and nowhere the other way round; else None."""
    signs = [(x, sign) for x in find_shared_points(one, other) if (sign := compare(one, other, x))]
    later = [x for x, sign in signs if sign > 0]
    ordered = [sign for _, sign in signs] == sorted(sign for _, sign in signs)
    return later[0] if later and ordered and signs[0][1] < 0 else None
