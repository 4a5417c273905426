"""Staleness of tables over time. Pure: the history and the time are arguments.

A table reflects, by each pathway, some version of an input. Its *age* is the age of the newest version that it
reflects. Its *staleness* is the quantity that freshness targets bound: the time since the
first version arrived that it does not reflect yet; zero while it reflects all versions. Of several pathways the worst
counts.

Data that passes a channel with event time is as old and as stale as the channel's watermark: only the watermark
guarantees that nothing is missing. While a source is silent its watermark does not advance, and staleness grows.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from tidemill.model.provenance import Pathway
from tidemill.model.time import Version
from tidemill.runtime.freshness.watermarks import NO_WATERMARKS, WatermarkHistory

_SECOND = 1_000_000


class StalenessMeasure(StrEnum):
    STALENESS = "staleness"
    AGE = "age"


@dataclass(frozen=True, slots=True)
class VisibleProvenance:
    """The versions that a table reflects from `visible` on: the newest by each pathway."""

    visible: Version
    newest: Mapping[Pathway, Version]


@dataclass(frozen=True, slots=True)
class StalenessHistory:
    """History of visibility: ascending versions of each input, and the provenance of each table, in order."""

    arrivals: Mapping[str, Sequence[Version]]
    provenance: Mapping[str, Sequence[VisibleProvenance]]
    weights: Mapping[str, float] = field(default_factory=dict)  # of tables whose weight is not one
    watermarks: WatermarkHistory = NO_WATERMARKS

    def find_start(self) -> float | None:
        """Return the time at which a table first reflected anything; None if none does."""
        first = min((r.visible for reaches in self.provenance.values() for r in reaches), default=None)
        return None if first is None else first / _SECOND


Point = tuple[float, float]
"""Seconds since the epoch, and the staleness at that time, in seconds."""


@dataclass(frozen=True, slots=True)
class StalenessCurve:
    """Piecewise linear staleness; at a jump, two points have the same time."""

    table: str
    points: tuple[Point, ...]

    @property
    def integral(self) -> float:
        """The staleness integrated over time, in square seconds.

        >>> StalenessCurve("t", ((0.0, 0.0), (10.0, 10.0), (10.0, 2.0), (20.0, 12.0))).integral
        120.0
        """
        pairs = zip(self.points, self.points[1:], strict=False)
        return sum((end - begin) * (first + last) / 2 for (begin, first), (end, last) in pairs)


def compute_curves(
    history: StalenessHistory, measure: StalenessMeasure, since: float, now: float
) -> tuple[StalenessCurve, ...]:
    """Compute one curve per table; none for a table that reflected nothing in the period."""
    times = _list_moments(history, since, now)
    curves = (
        StalenessCurve(table, tuple(_compute_points(history, table, measure, times)))
        for table in sorted(history.provenance)
    )
    return tuple(curve for curve in curves if curve.points)


def sum_curves(curves: Iterable[StalenessCurve], weights: Mapping[str, float] | None = None) -> StalenessCurve:
    """Return the weighted sum of curves that were computed together; a curve counts as zero before it begins."""
    sums: dict[tuple[float, int], float] = {}
    for curve in curves:
        for (time, value), side in zip(curve.points, _number_sides(curve.points), strict=True):
            sums[time, side] = sums.get((time, side), 0.0) + value * (weights or {}).get(curve.table, 1.0)
    return StalenessCurve("all tables", tuple((time, value) for (time, _), value in sorted(sums.items())))


def measure_staleness(history: StalenessHistory, table: str, measure: StalenessMeasure, time: float) -> float | None:
    """Return a table's staleness at a time; None while it reflects nothing."""
    return _compute_value(history, table, measure, int(time * _SECOND), before=False)


def _list_moments(history: StalenessHistory, since: float, now: float) -> list[Version]:
    """List the times of all points: both ends of the period, and every arrival, refresh and watermark between."""
    first, last = int(since * _SECOND), int(now * _SECOND)
    arrived = {v for versions in history.arrivals.values() for v in versions}
    reached = {r.visible for reaches in history.provenance.values() for r in reaches}
    moments = arrived | reached | history.watermarks.list_moments()
    return sorted({first, last} | {moment for moment in moments if first < moment < last})


def _compute_points(
    history: StalenessHistory, table: str, measure: StalenessMeasure, times: Sequence[Version]
) -> Iterable[Point]:
    """Yield two points per time: the value just before it, and the value at it."""
    for time in times:
        for before in (True, False):
            value = _compute_value(history, table, measure, time, before=before)
            if value is not None:
                yield time / _SECOND, value


def _compute_value(
    history: StalenessHistory, table: str, measure: StalenessMeasure, time: Version, *, before: bool
) -> float | None:
    reaches = history.provenance[table]
    find = bisect_left if before else bisect_right
    index = find([r.visible for r in reaches], time)
    if not index or not reaches[index - 1].newest:
        return None
    newest = reaches[index - 1].newest
    timed = {p for p in newest if history.watermarks.has_event_time(table, p)}
    watermark = history.watermarks.find_earliest_watermark(table, newest)
    if timed and watermark is None:
        return None
    lags = [
        _compute_pathway_lag(history, measure, p, v, time, before=before) for p, v in newest.items() if p not in timed
    ]
    return max([*lags, *([] if watermark is None else [time - watermark]), 0]) / _SECOND


def _compute_pathway_lag(
    history: StalenessHistory,
    measure: StalenessMeasure,
    pathway: Pathway,
    newest: Version,
    time: Version,
    *,
    before: bool,
) -> int:
    """Return the lag of one pathway in microseconds."""
    if measure is StalenessMeasure.AGE:
        return time - newest
    arrivals = history.arrivals.get(pathway[0], ())
    index = bisect_right(arrivals, newest)
    arrived = bisect_left(arrivals, time) if before else bisect_right(arrivals, time)
    return time - arrivals[index] if index < arrived else 0


def _number_sides(points: Sequence[Point]) -> Iterable[int]:
    """Number the points at a jump 0 and 1; a single point is 1."""
    times = [time for time, _ in points]
    return (0 if i + 1 < len(times) and times[i + 1] == times[i] else 1 for i in range(len(times)))
