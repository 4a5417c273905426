"""A partition of the state by vehicle: vehicles, and their contribution to the statistics of the segments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from benchmarks.linear_road.conditions import Conditions
from benchmarks.linear_road.distinct import DistinctKeys
from benchmarks.linear_road.rows import SEGMENTS, Column, Columns
from benchmarks.linear_road.vehicles import LAYOUT, VehicleFunction
from tidemill.model.window import MICROSECONDS, Window
from tidemill.stream.keyed import run_batch
from tidemill.stream.panes import END, EVENTS, PaneAggregator, PaneResult
from tidemill.stream.state_blocks import rebuild_table, to_arrow_table
from tidemill.stream.table import StateTable

SPEEDS = Window.from_text("5 minutes", "1 minute", by=["segment"], timeout=1, time="time")
CARS = Window.from_text("1 minute", "1 minute", by=["segment"], timeout=1, time="time")
ALL_SEGMENTS = 2**20
NO_VALUES = np.empty(0, np.int64)

Blocks = Mapping[str, Iterable[pa.Table]]
"""For each part of the state, its base and later deltas."""


@dataclass(frozen=True, slots=True)
class Minute:
    """Sums of the windows that end with a minute, by segment."""

    speed: Column
    reports: Column
    cars: Column

    @classmethod
    def empty(cls, roads: int) -> Minute:
        return cls(*(np.zeros(roads * SEGMENTS, np.int64) for _ in range(3)))

    def add(self, speeds: Columns, cars: Columns) -> None:
        self.speed[speeds["segment"]] += speeds["spd"]
        self.reports[speeds["segment"]] += speeds[EVENTS]
        self.cars[cars["segment"]] += cars[EVENTS]


@dataclass(frozen=True, slots=True)
class BatchEffect:
    """Outputs of a batch, and the delta of each part of the state."""

    outputs: Mapping[str, Columns]
    deltas: Mapping[str, pa.Table]


class Partition:
    """Vehicles by key, two windows over their reports, and the vehicles seen in each segment in this minute."""

    def __init__(self) -> None:
        self.vehicles = StateTable.create_table(LAYOUT)
        self._speeds = PaneAggregator(SPEEDS, ["segment"], ["spd"])
        self._cars = PaneAggregator(CARS, ["segment"], [])
        self._seen = DistinctKeys(["vehicle_and_segment"])

    def drive(self, batch: Columns, conditions: Conditions) -> BatchEffect:
        """Process rows of one minute with its conditions."""
        outcome = run_batch(self.vehicles, batch, VehicleFunction(conditions))
        seen, last = outcome.outputs["seen"], int(batch["time"][-1])
        speeds = _feed(self._speeds, seen, seen["time"], last)
        new = self._seen.add_keys((seen["vid"] * ALL_SEGMENTS + seen["segment"],))["vehicle_and_segment"]
        cars = _feed(self._cars, {"segment": new % ALL_SEGMENTS}, np.full(len(new), last), last)
        deltas = {
            "vehicles": to_arrow_table(outcome.changed, LAYOUT),
            "seen": pa.table({"vehicle_and_segment": new, "time": np.full(len(new), last)}),
            **_pack_panes("speeds", speeds, self._speeds),
            **_pack_panes("cars", cars, self._cars),
        }
        return BatchEffect(outcome.outputs, deltas)

    def close(self, begins: int, into: Minute) -> None:
        """Add the sums of the windows that end at the beginning of a minute (in seconds)."""
        speeds = _feed(self._speeds, {"segment": NO_VALUES, "spd": NO_VALUES}, NO_VALUES, begins)
        cars = _feed(self._cars, {"segment": NO_VALUES}, NO_VALUES, begins)
        self._seen.clear_keys()
        into.add(_select_last_windows(speeds.windows, begins), _select_last_windows(cars.windows, begins))

    def restore(self, blocks: Blocks, begins: int) -> None:
        """Restore the state in the minute that begins at this second."""
        self.vehicles = rebuild_table(LAYOUT, blocks["vehicles"])
        for name, panes in (("speeds", self._speeds), ("cars", self._cars)):
            groups = rebuild_table(panes.groups.layout, blocks[f"{name} groups"])
            panes_table = rebuild_table(panes.panes.layout, blocks[f"{name} panes"])
            panes.restore(groups.read_all(), panes_table.read_all(), begins * MICROSECONDS)
        for block in blocks["seen"]:
            current = block.filter(pa.array(block["time"].to_numpy() >= begins))
            self._seen.add_keys((current["vehicle_and_segment"].to_numpy(),))


def _feed(panes: PaneAggregator, events: Columns, seconds: Column, now: int) -> PaneResult:
    times = seconds.astype(np.int64) * MICROSECONDS
    return panes.run(events, times, times, now * MICROSECONDS)


def _pack_panes(name: str, result: PaneResult, panes: PaneAggregator) -> dict[str, pa.Table]:
    return {
        f"{name} groups": to_arrow_table(result.groups, panes.groups.layout),
        f"{name} panes": to_arrow_table(result.panes, panes.panes.layout),
    }


def _select_last_windows(windows: Columns, second: int) -> Columns:
    """The windows that end at this second; after a gap there are windows of several minutes."""
    last = windows[END] == second * MICROSECONDS
    return {name: column[last] for name, column in windows.items()}
