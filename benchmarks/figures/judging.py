"""Comparisons of curves: one measure, and the definitions of the terms with their tolerances.

The measure is *added lateness*: tables have a lateness of at least 1, and dispatching causes the rest. All comparisons
of two curves are strict in one direction, so none of them holds with the curves swapped.
"""

from __future__ import annotations

from collections.abc import Iterable
from statistics import fmean

from benchmarks.figures.experiment import Curve

NOISE = 0.05
"""Curves whose added lateness differs by at most this share of the larger one are the same."""

CLEARLY = 0.20
"""Curves whose added lateness differs by more than this share of the larger one differ clearly."""

VISIBLE = 0.01
"""At one load, curves whose lateness differs by at most this amount are the same, for any share."""

MIN_ADDED = 1e-3
"""Mean added lateness below this value counts as this value."""


def find_shared_points(*curves: Curve) -> list[float]:
    """The loads at which all curves have a point."""
    return sorted(set.intersection(*(set(curve) for curve in curves)))


def compute_ratio(one: Curve, other: Curve, at: Iterable[float] | None = None) -> float:
    """Mean added lateness of one curve as a multiple of that of the other."""
    loads = find_shared_points(one, other) if at is None else list(at)
    return _compute_added(one, loads) / _compute_added(other, loads)


def _compute_added(curve: Curve, loads: Iterable[float]) -> float:
    return max(MIN_ADDED, fmean(curve[x] - 1 for x in loads))


def is_better(one: Curve, other: Curve, at: Iterable[float] | None = None, by: float = NOISE) -> bool:
    """Whether one adds less on average, by more than this share."""
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
    """The load above which one is later, if it is less late at all lower loads where they differ; else None."""
    signs = [(x, sign) for x in find_shared_points(one, other) if (sign := compare(one, other, x))]
    later = [x for x, sign in signs if sign > 0]
    ordered = [sign for _, sign in signs] == sorted(sign for _, sign in signs)
    return later[0] if later and ordered and signs[0][1] < 0 else None
