"""What holds on each segment for a minute: speed, toll, and the nearest accident ahead."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from benchmarks.linear_road.rows import SEGMENTS, Column

AHEAD = 5  # segments in which an accident matters: the vehicle's own and four more
FREE_VEHICLES = 50  # vehicles in a segment that cost nothing
FREE_SPEED = 40  # miles an hour from which on nobody pays


@dataclass(frozen=True, slots=True)
class Conditions:
    """One entry for each segment of each direction, in the order of `segment`; roads that nobody knows are free."""

    lav: Column
    toll: Column
    accident: Column  # the nearest segment with one; -1: none

    @classmethod
    def none(cls, roads: int) -> Conditions:
        zeros = np.zeros(roads * SEGMENTS, np.int64)
        return cls(zeros, zeros, zeros - 1)

    @classmethod
    def of(cls, speed: Column, reports: Column, cars: Column, stopped: Column) -> Conditions:
        """From speeds and reports of five minutes, added up, vehicles of the last one, and where accidents are.

        The average is rounded, halves up, in whole numbers.
        """
        lav = np.where(reports > 0, (2 * speed + reports) // np.maximum(2 * reports, 1), 0)
        accident = find_nearest(stopped)
        has_toll = (cars > FREE_VEHICLES) & (lav < FREE_SPEED) & (accident < 0)
        return cls(lav, np.where(has_toll, 2 * (cars - FREE_VEHICLES) ** 2, 0), accident)

    def at(self, segments: Column) -> tuple[Column, Column, Column]:
        return self.lav[segments], self.toll[segments], self.accident[segments]


def compute_segment(xway: Column, direction: Column, seg: Column) -> Column:
    """The number of a segment."""
    return (xway.astype(np.int64) * 2 + direction) * SEGMENTS + seg


def find_nearest(accidents: Column) -> Column:
    """For each segment the nearest of its road, ahead or here, that has an accident; -1 if none is near.

    Traffic in direction 0 goes up, in direction 1 down; nothing is beyond the ends.
    """
    here = np.arange(SEGMENTS)
    roads = accidents.reshape(-1, SEGMENTS) > 0
    nearest = np.full(roads.shape, -1)
    for away in reversed(range(AHEAD)):
        for direction in (0, 1):
            ahead = here + away if direction == 0 else here - away
            inside = (ahead >= 0) & (ahead < SEGMENTS)
            hit = roads[direction::2, ahead[inside]]
            part = nearest[direction::2]
            part[:, inside] = np.where(hit, ahead[inside], part[:, inside])
    return nearest.reshape(-1)
