"""How stale tables were, over time. Pure: what happened is given, and so is the time.

A table reflects, by each pathway, some version of an input. Its *age* is how old the newest version is that it
reflects. Its *staleness* is what constraints bound (ARCHITECTURE section 3): how long ago the first version came that
it does not reflect yet; nothing, while it reflects all there is. Of several pathways the worst counts.

What comes by way of a channel with event time is as old and as stale as its safe trailing edge: the edge alone says
that nothing is missing. While a source is silent its edge stands still, and staleness grows.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from tidemill.model.provenance import Pathway
from tidemill.model.time import Version
from tidemill.runtime.freshness.watermarks import NO_EDGES, WatermarkHistory

_SECOND = 1_000_000


class StalenessMeasure(StrEnum):
    STALENESS = "staleness"
    AGE = "age"


@dataclass(frozen=True, slots=True)
class VisibleProvenance:
    """From `visible` on a table reflected these versions: the newest by each pathway."""

    visible: Version
    newest: Mapping[Pathway, Version]


@dataclass(frozen=True, slots=True)
class StalenessHistory:
    """What became visible: versions on each input, ascending; and what each table reached, in its order."""

    arrivals: Mapping[str, Sequence[Version]]
    reaches: Mapping[str, Sequence[VisibleProvenance]]
    weights: Mapping[str, float] = field(default_factory=dict)  # of tables that count for more or less than one
    edges: WatermarkHistory = NO_EDGES

    def find_start(self) -> float | None:
        """When the first table reflected anything; None if none does."""
        first = min((r.visible for reaches in self.reaches.values() for r in reaches), default=None)
        return None if first is None else first / _SECOND


Point = tuple[float, float]
"""Seconds since the epoch, and how stale it was then, in seconds."""


@dataclass(frozen=True, slots=True)
class StalenessCurve:
    """Straight lines between points; where it jumps, two points have the same time."""

    table: str
    points: tuple[Point, ...]

    @property
    def integral(self) -> float:
        """How stale it was, summed over time: seconds of staleness, times seconds.

        >>> StalenessCurve("t", ((0.0, 0.0), (10.0, 10.0), (10.0, 2.0), (20.0, 12.0))).integral
        120.0
        """
        pairs = zip(self.points, self.points[1:], strict=False)
        return sum((end - begin) * (first + last) / 2 for (begin, first), (end, last) in pairs)


def compute_curves(
    history: StalenessHistory, measure: StalenessMeasure, since: float, now: float
) -> tuple[StalenessCurve, ...]:
    """One curve a table; none for a table that reflected nothing in the whole time."""
    moments = _list_moments(history, since, now)
    found = (
        StalenessCurve(table, tuple(_compute_points(history, table, measure, moments)))
        for table in sorted(history.reaches)
    )
    return tuple(curve for curve in found if curve.points)


def sum_curves(drawn: Iterable[StalenessCurve], weights: Mapping[str, float] | None = None) -> StalenessCurve:
    """The sum of curves that were drawn together, by weight; where one has not begun it counts as nothing."""
    sums: dict[tuple[float, int], float] = {}
    for curve in drawn:
        for (moment, value), side in zip(curve.points, _number_sides(curve.points), strict=True):
            sums[moment, side] = sums.get((moment, side), 0.0) + value * (weights or {}).get(curve.table, 1.0)
    return StalenessCurve("all tables", tuple((moment, value) for (moment, _), value in sorted(sums.items())))


def measure_staleness(history: StalenessHistory, table: str, measure: StalenessMeasure, moment: float) -> float | None:
    """How stale a table was at a moment; None while it reflected nothing."""
    return _compute_value(history, table, measure, int(moment * _SECOND), before=False)


def _list_moments(history: StalenessHistory, since: float, now: float) -> list[Version]:
    """The ends of the time looked at, and whenever anything became visible between, or an edge lay ahead until then."""
    first, last = int(since * _SECOND), int(now * _SECOND)
    arrived = {v for versions in history.arrivals.values() for v in versions}
    reached = {r.visible for reaches in history.reaches.values() for r in reaches}
    return sorted({first, last} | {v for v in arrived | reached | history.edges.list_moments() if first < v < last})


def _compute_points(
    history: StalenessHistory, table: str, measure: StalenessMeasure, moments: Sequence[Version]
) -> Iterable[Point]:
    """At each moment what it was just before, and what it was then."""
    for moment in moments:
        for before in (True, False):
            value = _compute_value(history, table, measure, moment, before=before)
            if value is not None:
                yield moment / _SECOND, value


def _compute_value(
    history: StalenessHistory, table: str, measure: StalenessMeasure, moment: Version, *, before: bool
) -> float | None:
    reaches = history.reaches[table]
    find = bisect_left if before else bisect_right
    at = find([r.visible for r in reaches], moment)
    if not at or not reaches[at - 1].newest:
        return None
    newest = reaches[at - 1].newest
    timed = {p for p in newest if history.edges.has_event_time(table, p)}
    edge = history.edges.find_earliest_watermark(table, newest)
    if timed and edge is None:
        return None
    behind = [
        _compute_pathway_lag(history, measure, p, v, moment, before=before) for p, v in newest.items() if p not in timed
    ]
    return max([*behind, *([] if edge is None else [moment - edge]), 0]) / _SECOND


def _compute_pathway_lag(
    history: StalenessHistory,
    measure: StalenessMeasure,
    pathway: Pathway,
    newest: Version,
    moment: Version,
    *,
    before: bool,
) -> int:
    """How far one pathway was behind."""
    if measure is StalenessMeasure.AGE:
        return moment - newest
    arrivals = history.arrivals.get(pathway[0], ())
    at = bisect_right(arrivals, newest)
    known = bisect_left(arrivals, moment) if before else bisect_right(arrivals, moment)
    return moment - arrivals[at] if at < known else 0


def _number_sides(points: Sequence[Point]) -> Iterable[int]:
    """Which of two points at the same time each is: of a lone one, the later."""
    times = [moment for moment, _ in points]
    return (0 if i + 1 < len(times) and times[i + 1] == times[i] else 1 for i in range(len(times)))
