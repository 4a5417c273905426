"""What is looked up by other things than vehicles: places where somebody stands, and the tolls of days past."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from benchmarks.linear_road.rows import FEET, HISTORY, SEGMENTS, Column, Columns
from benchmarks.linear_road.vehicles import road_and_position
from tidemill.stream.keyed import Step, run
from tidemill.stream.layout import Layout, Rows
from tidemill.stream.state_blocks import rebuilt, table_of
from tidemill.stream.table import StateTable

ACCIDENT = 2
"""From so many vehicles in one place on."""


class Accidents:
    """How many vehicles stand in each place."""

    LAYOUT = Layout(("place",), {"stopped": "i4"})

    def __init__(self) -> None:
        self._places = StateTable.new(self.LAYOUT)

    def update(self, stops: Columns) -> pa.Table:
        """Returns the delta of the state."""
        return table_of(run(self._places, stops, _standing).changed, self.LAYOUT)

    def segments(self, roads: int) -> Column:
        """How many accidents there are now, segment by segment."""
        rows = self._places.all()
        road, position = road_and_position(rows["place"][rows["stopped"] >= ACCIDENT])
        return np.bincount(road * SEGMENTS + position // FEET, minlength=roads * SEGMENTS)

    def restore(self, blocks: Iterable[pa.Table]) -> None:
        self._places = rebuilt(self.LAYOUT, blocks)


def _standing(state: Rows, stops: Columns) -> Step:
    state["stopped"] += stops["more"].astype(np.int32)
    return Step(state)


class Expenditures:
    """The tolls of days past, by vehicle, day and expressway."""

    LAYOUT = Layout(("vid", "day", "xway"), {"toll": "i8"})

    def __init__(self, history: Columns) -> None:
        self._tolls = StateTable.new(self.LAYOUT, len(history["vid"]))
        slots = self._tolls.slots(tuple(history[name] for name in HISTORY[:3]))
        rows = self._tolls.all()
        np.add.at(rows["toll"], slots, history["toll"])
        self._tolls.write(np.arange(self._tolls.count), rows)

    def answer(self, queries: Columns) -> Columns:
        slots = self._tolls.find((queries["vid"], queries["day"], queries["xway"]))
        known = slots >= 0
        balance = np.zeros(len(slots), np.int64)
        balance[known] = self._tolls.read(slots[known])["toll"]
        return {"time": queries["time"], "qid": queries["qid"], "balance": balance}
