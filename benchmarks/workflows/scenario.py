"""Simulated scenarios: a workflow, the work of its variants, and its arrivals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from benchmarks.workflows.rates import Rates, Work
from tidemill.model.time import Version
from tidemill.planner.graph import BlockShape, PlanningGraph

MINUTE: Version = 60 * 1_000_000
HOUR = 60 * MINUTE
DAY = 24 * HOUR
WEEK = 7 * DAY


@dataclass(frozen=True, slots=True)
class Feed:
    """Arrivals on an input channel: bytes per interval, after an initial amount."""

    bytes: float
    initial_bytes: float
    every: Version = 30 * MINUTE
    phase: Version = 0  # delay of the first arrival
    shape: BlockShape = BlockShape.MONOTONE


@dataclass(frozen=True, slots=True)
class Figure:
    """Figures of the paper; lag and cost in CPU hours."""

    lag: float
    cost: float
    table: str


@dataclass(frozen=True, slots=True)
class Scenario:
    name: str
    graph: PlanningGraph
    feeds: Mapping[str, Feed]
    work: Mapping[tuple[str, str], Work]
    paper: Mapping[str, Figure]  # by mode

    @property
    def costs(self) -> Rates:
        return Rates(self.graph, self.work)
