"""State that is not keyed by vehicle: stopped vehicles by place, and tolls of past days."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from benchmarks.linear_road.rows import FEET, HISTORY, SEGMENTS, Column, Columns
from benchmarks.linear_road.vehicles import split_place
from tidemill.stream.keyed import KeyedResult, run_batch
from tidemill.stream.layout import RowLayout, Rows
from tidemill.stream.state_blocks import rebuild_table, to_arrow_table
from tidemill.stream.table import StateTable

ACCIDENT = 2
"""Minimum number of stopped vehicles of an accident."""


class Accidents:
    """Number of stopped vehicles by place."""

    LAYOUT = RowLayout(("place",), {"stopped": "i4"})

    def __init__(self) -> None:
        self._places = StateTable.create_table(self.LAYOUT)

    def update(self, stops: Columns) -> pa.Table:
        """Apply stops and departures; returns the delta of the state."""
        return to_arrow_table(run_batch(self._places, stops, _count_stopped).changed, self.LAYOUT)

    def count_by_segment(self, roads: int) -> Column:
        """The number of current accidents by segment."""
        rows = self._places.read_all()
        road, position = split_place(rows["place"][rows["stopped"] >= ACCIDENT])
        return np.bincount(road * SEGMENTS + position // FEET, minlength=roads * SEGMENTS)

    def restore(self, blocks: Iterable[pa.Table]) -> None:
        self._places = rebuild_table(self.LAYOUT, blocks)


def _count_stopped(state: Rows, stops: Columns) -> KeyedResult:
    state["stopped"] += stops["more"].astype(np.int32)
    return KeyedResult(state)


class Expenditures:
    """Tolls of past days by vehicle, day and expressway."""

    LAYOUT = RowLayout(("vid", "day", "xway"), {"toll": "i8"})

    def __init__(self, history: Columns) -> None:
        self._tolls = StateTable.create_table(self.LAYOUT, len(history["vid"]))
        slots = self._tolls.ensure_slots(tuple(history[name] for name in HISTORY[:3]))
        rows = self._tolls.read_all()
        np.add.at(rows["toll"], slots, history["toll"])
        self._tolls.write(np.arange(self._tolls.count), rows)

    def answer(self, queries: Columns) -> Columns:
        slots = self._tolls.find_slots((queries["vid"], queries["day"], queries["xway"]))
        known = slots >= 0
        balance = np.zeros(len(slots), np.int64)
        balance[known] = self._tolls.read(slots[known])["toll"]
        return {"time": queries["time"], "qid": queries["qid"], "balance": balance}
