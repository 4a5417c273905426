"""Traffic generator: vehicles on expressways from a seed, in steps of 30 seconds, the interval of their reports.

The number of vehicles on the road grows by the specification, from 17 to 1,700 reports per second on each expressway
over three hours. A run that starts later begins with the vehicles of that time on the road. Dense traffic is slow; two
vehicles that stop in one place are an accident, which is cleared after some time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from benchmarks.linear_road.rows import (
    BALANCE,
    ENTRY,
    EXIT,
    EXPENDITURE,
    FEET,
    INPUT,
    REPORT,
    SEGMENTS,
    Column,
    Columns,
)

PERIOD = 30
"""Seconds between two reports of a vehicle."""

FEET_A_SECOND = 5280 / 3600
"""Feet per second at one mile per hour."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Parameters of the traffic. The defaults are the specification's."""

    expressways: float = 1.0  # with a fraction of 0.5, the last one has one direction only
    seconds: int = 10_800
    start: int = 0
    seed: int = 1
    first_rate: float = 17.0  # reports per second on an expressway at second 0
    last_rate: float = 1_700.0  # at second 10,800
    trip: float = 1_200.0  # seconds on the road, on average
    returning: float = 0.1  # share of the leaving vehicles that return
    accident_every: int = 1_200  # seconds, on each expressway
    cleared_after: tuple[int, int] = (600, 1_200)  # seconds after detection
    balance_queries: float = 0.005  # per report
    expenditure_queries: float = 0.001
    history_days: int = 5  # days with a toll for each vehicle, of 69

    @property
    def roads(self) -> int:
        """Number of directions of expressways."""
        return round(self.expressways * 2)

    def vehicles(self, time: float) -> float:
        """The number of vehicles on one direction of an expressway."""
        rate = self.first_rate + (self.last_rate - self.first_rate) * time / 10_800
        return rate * PERIOD / 2


@dataclass(slots=True)
class _Vehicles:
    """The vehicles on the road: one array for each property, one element for each vehicle."""

    vid: Column
    road: Column  # expressway times two, plus direction
    pos: Column
    lane: Column
    phase: Column  # second of the period in which it reports
    speed_offset: npt.NDArray[np.float64]  # difference to the speed of others
    exit: Column  # position of the exit
    stopped_until: Column  # second until which it is stopped

    def find_finished(self) -> npt.NDArray[np.bool_]:
        """A mask of the vehicles that have reached their exit."""
        return np.where(self.road % 2 == 0, self.pos >= self.exit, self.pos <= self.exit)

    def select(self, which: npt.NDArray[np.bool_]) -> _Vehicles:
        return _Vehicles(*(getattr(self, name)[which] for name in self.__slots__))

    def concat(self, other: _Vehicles) -> _Vehicles:
        return _Vehicles(*(np.concatenate([getattr(self, n), getattr(other, n)]) for n in self.__slots__))


@dataclass(slots=True)
class Traffic:
    """Generates the rows of a plan, period by period."""

    plan: Plan
    vehicles: int = 0  # number of vehicles so far
    _chance: np.random.Generator = field(init=False)
    _away: list[tuple[int, Column]] = field(init=False, default_factory=list)  # times of return, and vehicles
    _queries: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self._chance = np.random.default_rng(self.plan.seed)

    def generate_rows(self) -> Iterator[Columns]:
        """Rows ordered by time, one period per item."""
        plan = self.plan
        road = self._create_vehicles(round(plan.vehicles(plan.start)) * plan.roads, under_way=True)
        for began in range(plan.start, plan.start + plan.seconds, PERIOD):
            road = self._cause_accidents(road, began)
            reports = self._create_reports(road, began)
            yield self._add_queries(reports, until=plan.start + plan.seconds)
            road = self._move_vehicles(self._remove_leaving(road, began), began)
            target = round(plan.vehicles(began + PERIOD)) * plan.roads
            road = road.concat(
                self._create_vehicles(max(0, target - len(road.vid)), under_way=False, now=began + PERIOD)
            )

    def generate_history(self) -> Columns:
        """The tolls of past days, of all vehicles so far."""
        count = self.vehicles * self.plan.history_days
        vid = np.repeat(np.arange(self.vehicles), self.plan.history_days)
        first = self._chance.integers(0, 69, self.vehicles)
        day = (
            np.repeat(first, self.plan.history_days) + np.tile(np.arange(self.plan.history_days), self.vehicles)
        ) % 69
        expressways = -(-self.plan.roads // 2)
        return {
            "vid": vid,
            "day": day + 1,
            "xway": self._chance.integers(0, expressways, count),
            "toll": self._chance.integers(0, 100, count),
        }

    def _create_vehicles(self, count: int, *, under_way: bool, now: int = 0) -> _Vehicles:
        """Vehicles that enter the road: returning ones first, the others new."""
        returning = self._take_returning(now, count)
        new = np.arange(self.vehicles, self.vehicles + count - len(returning))
        self.vehicles += len(new)
        road = self._chance.integers(0, max(1, self.plan.roads), count)
        pos = self._draw_entries(count)
        length = self._chance.exponential(self.plan.trip * 45 * FEET_A_SECOND, count).astype(np.int64) + FEET
        lane = self._chance.integers(1, EXIT, count) if under_way else np.full(count, ENTRY)
        return _Vehicles(
            vid=np.concatenate([returning, new]),
            road=road,
            pos=np.where(road % 2 == 0, pos, SEGMENTS * FEET - 1 - pos),
            lane=lane,
            phase=self._chance.integers(0, PERIOD, count),
            speed_offset=self._chance.normal(0, 6, count),
            exit=np.where(road % 2 == 0, pos + length, SEGMENTS * FEET - 1 - pos - length),
            stopped_until=np.zeros(count, np.int64),
        )

    def _draw_entries(self, count: int) -> Column:
        """Positions of entry: half of them uniform, the others around the middle, which becomes dense."""
        anywhere = self._chance.uniform(0, SEGMENTS - 1, count)
        middle = np.clip(self._chance.normal(SEGMENTS / 2, 3, count), 0, SEGMENTS - 1)
        return (np.where(self._chance.random(count) < 0.5, anywhere, middle) * FEET).astype(np.int64)

    def _take_returning(self, now: int, limit: int) -> Column:
        ready = [vids for since, vids in self._away if since <= now]
        self._away = [(since, vids) for since, vids in self._away if since > now]
        vehicles = np.concatenate([np.empty(0, np.int64), *ready])
        if len(vehicles) > limit:
            self._away.append((now, vehicles[limit:]))
        return vehicles[:limit]

    def _create_reports(self, road: _Vehicles, began: int) -> Columns:
        moving = road.stopped_until <= began
        seg = road.pos // FEET
        speed = np.where(moving, self._compute_speeds(road, seg), 0)
        lane = np.where(road.find_finished() & moving, EXIT, road.lane)
        return {
            "type": np.full(len(seg), REPORT),
            "time": began + road.phase,
            "vid": road.vid,
            "spd": speed,
            "xway": road.road // 2,
            "lane": lane,
            "dir": road.road % 2,
            "seg": seg,
            "pos": road.pos,
        }

    def _compute_speeds(self, road: _Vehicles, seg: Column) -> Column:
        """Speeds that fall with density: about 40 miles per hour with 100 vehicles in a segment."""
        place = road.road * SEGMENTS + seg
        density = np.bincount(place, minlength=self.plan.roads * SEGMENTS)[place]
        speed: Column = np.clip(70 - density * 0.3 + road.speed_offset, 10, 100).astype(np.int64)
        return speed

    def _remove_leaving(self, road: _Vehicles, began: int) -> _Vehicles:
        """Remove vehicles that reported from the exit; some of them return, a minute later at the earliest."""
        moving = road.stopped_until <= began
        leaving = moving & road.find_finished()
        returning = road.vid[leaving][self._chance.random(int(leaving.sum())) < self.plan.returning]
        if len(returning):
            self._away.append((began + PERIOD + 61 + int(self._chance.integers(0, 300)), returning))
        return road.select(~leaving)

    def _move_vehicles(self, road: _Vehicles, began: int) -> _Vehicles:
        """Move vehicles to their next report; no vehicle passes a segment without a report from it."""
        moving = road.stopped_until <= began + PERIOD
        speed = self._compute_speeds(road, road.pos // FEET)
        feet = np.where(moving, (speed * FEET_A_SECOND * PERIOD).astype(np.int64), 0)
        pos = np.where(road.road % 2 == 0, road.pos + feet, road.pos - feet)
        road.pos = np.clip(pos, 0, SEGMENTS * FEET - 1)
        at_end = (road.pos == 0) | (road.pos == SEGMENTS * FEET - 1)
        road.exit = np.where(at_end, road.pos, road.exit)
        changes_lane = moving & ((road.lane == ENTRY) | (self._chance.random(len(feet)) < 0.1))
        road.lane = np.where(changes_lane, self._chance.integers(1, EXIT, len(feet)), road.lane)
        return road

    def _cause_accidents(self, road: _Vehicles, now: int) -> _Vehicles:
        """At random times, stop two vehicles of a segment in one place for some time."""
        chance = min(1.0, PERIOD / self.plan.accident_every)
        for expressway in range(-(-self.plan.roads // 2)):
            if self._chance.random() < chance:
                self._stop_vehicles(road, expressway, now)
        return road

    def _stop_vehicles(self, road: _Vehicles, expressway: int, now: int) -> None:
        driving = np.flatnonzero((road.road // 2 == expressway) & (road.stopped_until == 0) & (road.lane > ENTRY))
        if not driving.size:
            return
        first = self._chance.choice(driving)
        near = driving[
            (road.road[driving] == road.road[first]) & (road.pos[driving] // FEET == road.pos[first] // FEET)
        ]
        detected = now + 4 * PERIOD
        for vehicle in (first, *near[near != first][:1]):
            road.pos[vehicle], road.lane[vehicle] = road.pos[first], road.lane[first]
            road.stopped_until[vehicle] = detected + int(self._chance.integers(*self.plan.cleared_after))

    def _add_queries(self, reports: Columns, until: int) -> Columns:
        """Reports and the queries of some of them, ordered by time; rows after the end are removed."""
        parts = [reports]
        for kind, share in ((BALANCE, self.plan.balance_queries), (EXPENDITURE, self.plan.expenditure_queries)):
            chosen = np.flatnonzero(self._chance.random(len(reports["vid"])) < share)
            parts.append(self._create_queries(kind, {n: reports[n][chosen] for n in ("time", "vid", "xway")}))
        rows = {n: np.concatenate([p[n] if n in p else np.full(len(p["time"]), -1) for p in parts]) for n in INPUT}
        order = np.argsort(rows["time"], kind="stable")
        order = order[rows["time"][order] < until]
        return {name: column[order] for name, column in rows.items()}

    def _create_queries(self, kind: int, vehicles: Columns) -> Columns:
        count = len(vehicles["vid"])
        numbers = np.arange(self._queries, self._queries + count)
        self._queries += count
        rows = {"type": np.full(count, kind), "time": vehicles["time"], "vid": vehicles["vid"], "qid": numbers}
        if kind == EXPENDITURE:
            rows |= {"xway": vehicles["xway"], "day": self._chance.integers(1, 70, count)}
        return rows


def generate_traffic(plan: Plan) -> tuple[Columns, Columns]:
    """All rows of a plan, and the matching history."""
    traffic = Traffic(plan)
    parts = list(traffic.generate_rows())
    return {name: np.concatenate([p[name] for p in parts]) for name in INPUT}, traffic.generate_history()
