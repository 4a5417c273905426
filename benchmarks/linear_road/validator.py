"""The expected answers by the specification, in plain Python: it shares no code with the engine.

Answers depend on data of finished minutes, so the input is processed twice: first for trips, statistics and accidents,
then for tolls, charges and queries.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy.typing as npt

from benchmarks.linear_road.rows import BALANCE, EXPENDITURE, HISTORY, LIMITS, REPORT, Columns

Answer = tuple[int, ...]
Expected = dict[str, Counter[Answer]]
Road = tuple[int, int]  # expressway, direction
Segment = tuple[int, int, int]
Place = tuple[int, int, int, int]  # expressway, direction, lane, position


def to_minute(time: int) -> int:
    return time // 60 + 1


@dataclass(slots=True)
class _Vehicle:
    """State of a vehicle from its reports so far."""

    time: int
    place: Place
    segment: int
    same_place: int = 1  # consecutive reports from this place
    has_left: bool = False  # its last report came from the exit lane


@dataclass(frozen=True, slots=True)
class _Crossing:
    time: int
    vehicle: int
    segment: Segment
    lane: int
    first: bool  # of its trip


@dataclass(slots=True)
class _Road:
    """All trips, statistics and accidents."""

    cars: dict[tuple[Segment, int], set[int]] = field(default_factory=lambda: defaultdict(set))
    speeds: dict[tuple[Segment, int], tuple[int, int]] = field(default_factory=lambda: defaultdict(lambda: (0, 0)))
    crossings: list[_Crossing] = field(default_factory=list)
    stopped: dict[Place, set[int]] = field(default_factory=lambda: defaultdict(set))
    since: dict[Place, int] = field(
        default_factory=dict
    )  # accidents that are not cleared, with their second of detection
    in_force: dict[Segment, set[tuple[int, int | None]]] = field(default_factory=lambda: defaultdict(set))


def compute_expected(rows: Columns, history: Columns) -> Expected:
    """The answers of each kind, without their time of emission."""
    ordered = sorted(zip(*(rows[n].tolist() for n in _COLUMNS), strict=True), key=lambda row: row[1])
    road = _collect_history([r for r in ordered if r[0] == REPORT])
    answers: Expected = {kind: Counter() for kind in LIMITS}
    charges = _compute_tolls(road, answers)
    _answer_queries(ordered, charges, history, answers)
    return answers


_COLUMNS = ("type", "time", "vid", "spd", "xway", "lane", "dir", "seg", "pos", "qid", "day")


def _collect_history(reports: Iterable[tuple[int, ...]]) -> _Road:
    road = _Road()
    vehicles: dict[int, _Vehicle] = {}
    for _, time, vid, spd, xway, lane, direction, seg, pos, *_ in reports:
        before = vehicles.get(vid)
        if lane == 4 if before is None else before.has_left and lane != 0:
            continue
        place = (xway, direction, lane, pos)
        first = before is None or before.has_left or _is_new_trip(before, time, place)
        if before is None or first or before.segment != seg:
            road.crossings.append(_Crossing(time, vid, (xway, direction, seg), lane, first))
        _count_report(road, vid, spd, (xway, direction, seg), to_minute(time))
        now = _Vehicle(time, place, seg, has_left=lane == 4)
        if before is not None and before.place == place:
            now.same_place = before.same_place + 1
        _update_stops(road, vid, before, now)
        vehicles[vid] = now
    for place, detected in road.since.items():
        _add_accident(road, place, detected, None)
    return road


def _is_new_trip(before: _Vehicle, time: int, place: Place) -> bool:
    """Whether a vehicle that has not left begins another trip."""
    return place[:2] != before.place[:2] or (place[2] == 0 and time - before.time > 60)


def _count_report(road: _Road, vid: int, spd: int, segment: Segment, minute: int) -> None:
    road.cars[segment, minute].add(vid)
    total, reports = road.speeds[segment, minute]
    road.speeds[segment, minute] = (total + spd, reports + 1)


def _update_stops(road: _Road, vid: int, before: _Vehicle | None, now: _Vehicle) -> None:
    """Update stopped vehicles, and the accidents that begin and end with them."""
    if before is not None and before.same_place >= 4 and before.place != now.place:
        road.stopped[before.place].discard(vid)
        if len(road.stopped[before.place]) == 1:
            _add_accident(road, before.place, road.since.pop(before.place), now.time)
    if now.same_place == 4:
        road.stopped[now.place].add(vid)
        if len(road.stopped[now.place]) == 2:
            road.since[now.place] = now.time


def _add_accident(road: _Road, place: Place, detected: int, cleared: int | None) -> None:
    xway, direction, _, pos = place
    last = None if cleared is None else to_minute(cleared)
    road.in_force[xway, direction, pos // 5280].add((to_minute(detected) + 1, last))


def _compute_tolls(road: _Road, answers: Mapping[str, Counter[Answer]]) -> dict[int, list[tuple[int, int]]]:
    """Add the answers on tolls and accidents at each crossing; returns the charges of each vehicle with their times."""
    charges: dict[int, list[tuple[int, int]]] = defaultdict(list)
    quoted: dict[int, int] = {}
    for crossing in road.crossings:
        vid, minute = crossing.vehicle, to_minute(crossing.time)
        if not crossing.first:
            charges[vid].append((crossing.time, quoted[vid]))
        lav = _compute_lav(road, crossing.segment, minute)
        accident = _find_accident(road, crossing.segment, minute)
        quoted[vid] = _compute_toll(len(road.cars.get((crossing.segment, minute - 1), ())), lav, accident)
        if crossing.lane != 4:
            answers["tolls"][vid, crossing.time, lav, quoted[vid]] += 1
            if accident is not None:
                xway, direction, _ = crossing.segment
                answers["accidents"][crossing.time, xway, accident, direction, vid] += 1
    return charges


def _compute_lav(road: _Road, segment: Segment, minute: int) -> int:
    minutes = [road.speeds[segment, m] for m in range(minute - 5, minute) if (segment, m) in road.speeds]
    total, reports = sum(t for t, _ in minutes), sum(n for _, n in minutes)
    return (2 * total + reports) // (2 * reports) if reports else 0


def _find_accident(road: _Road, segment: Segment, minute: int) -> int | None:
    """The nearest segment with an accident in force, within this one and the next four."""
    xway, direction, seg = segment
    for away in range(5):
        ahead = seg + away if direction == 0 else seg - away
        spans = road.in_force.get((xway, direction, ahead), ()) if 0 <= ahead <= 99 else ()
        if any(first <= minute and (last is None or minute <= last) for first, last in spans):
            return ahead
    return None


def _compute_toll(cars: int, lav: int, accident: int | None) -> int:
    return 2 * (cars - 50) ** 2 if cars > 50 and lav < 40 and accident is None else 0


def _answer_queries(
    rows: Iterable[tuple[int, ...]],
    charges: Mapping[int, list[tuple[int, int]]],
    history: Columns,
    answers: Mapping[str, Counter[Answer]],
) -> None:
    spent: Counter[tuple[int, int, int]] = Counter()
    for vid, day, xway, toll in zip(*(history[n].tolist() for n in HISTORY), strict=True):
        spent[vid, day, xway] += toll
    for kind, time, vid, _, xway, *_, qid, day in rows:
        if kind == BALANCE:
            balance = sum(toll for charged_at, toll in charges.get(vid, ()) if charged_at <= time)
            answers["balances"][time, time, qid, balance] += 1
        elif kind == EXPENDITURE:
            answers["expenditures"][time, qid, spent[vid, day, xway]] += 1


@dataclass(frozen=True, slots=True)
class Verdict:
    """Comparison of answers with the expected ones."""

    right: int
    missing: Mapping[str, list[Answer]]
    extra: Mapping[str, list[Answer]]  # wrong, or given twice
    slow: int  # right, but after the limit

    @property
    def has_passed(self) -> bool:
        return not (any(self.missing.values()) or any(self.extra.values()) or self.slow)


_COMPARED = {
    "tolls": ("vid", "time", "lav", "toll"),
    "accidents": ("time", "xway", "seg", "dir", "vid"),
    "balances": ("time", "result_time", "qid", "balance"),
    "expenditures": ("time", "qid", "balance"),
}


def compare_answers(expected: Expected, answers: Mapping[str, Mapping[str, npt.NDArray[Any]]]) -> Verdict:
    """Compare answers with the expected ones. For answers with a time of emission, the limits are checked as well."""
    counts = {k: Counter(zip(*(answers[k][n].tolist() for n in names), strict=True)) for k, names in _COMPARED.items()}
    slow = sum(int((answers[k]["emit"] - answers[k]["time"] > LIMITS[k]).sum()) for k in LIMITS if "emit" in answers[k])
    return Verdict(
        right=sum((expected[k] & counts[k]).total() for k in LIMITS),
        missing={k: list((expected[k] - counts[k]).elements()) for k in LIMITS},
        extra={k: list((counts[k] - expected[k]).elements()) for k in LIMITS},
        slow=slow,
    )
