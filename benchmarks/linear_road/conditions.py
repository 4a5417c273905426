"""Conditions of each segment during a minute: speed, toll, and the nearest accident ahead."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from benchmarks.linear_road.rows import SEGMENTS, Column

AHEAD = 5  # segments in which an accident matters: the current one and four more
FREE_VEHICLES = 50  # number of vehicles in a segment up to which there is no toll
FREE_SPEED = 40  # miles per hour from which on there is no toll


@dataclass(frozen=True, slots=True)
class Conditions:
    """One entry for each segment of each direction, in the order of `compute_segment`; unknown roads have no toll."""

    lav: Column
    toll: Column
    accident: Column  # the nearest segment with an accident; -1: none

    @classmethod
    def create_empty(cls, roads: int) -> Conditions:
        zeros = np.zeros(roads * SEGMENTS, np.int64)
        return cls(zeros, zeros, zeros - 1)

    @classmethod
    def from_sums(cls, speed: Column, reports: Column, cars: Column, stopped: Column) -> Conditions:
        """Conditions from sums of speeds and reports of five minutes, vehicles of the last minute, and accidents.

        The average is rounded half up, in integer arithmetic.
        """
        lav = np.where(reports > 0, (2 * speed + reports) // np.maximum(2 * reports, 1), 0)
        accident = find_nearest(stopped)
        has_toll = (cars > FREE_VEHICLES) & (lav < FREE_SPEED) & (accident < 0)
        return cls(lav, np.where(has_toll, 2 * (cars - FREE_VEHICLES) ** 2, 0), accident)

    def get_at(self, segments: Column) -> tuple[Column, Column, Column]:
        return self.lav[segments], self.toll[segments], self.accident[segments]


def compute_segment(xway: Column, direction: Column, seg: Column) -> Column:
    """The number of a segment."""
    return (xway.astype(np.int64) * 2 + direction) * SEGMENTS + seg


def find_nearest(accidents: Column) -> Column:
    """For each segment the nearest one with an accident, at or ahead of it on its road; -1 if none is near.

    Traffic in direction 0 moves to higher segments, in direction 1 to lower ones; the ends are bounds.
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
