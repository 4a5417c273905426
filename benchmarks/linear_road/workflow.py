"""The workflow: vehicles by key, statistics by windows, accidents by place, and tolls of past days by lookup.

Answers depend only on finished minutes. So a batch needs the results of earlier minutes, a small table that changes
once a minute, and no data of other vehicles in the current minute. The vehicles and their windows are partitioned by
vehicle; the sums of the windows of all partitions are added.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import pairwise

import numpy as np
import pyarrow as pa

from benchmarks.linear_road.conditions import Conditions
from benchmarks.linear_road.partition import NO_VALUES, BatchEffect, Blocks, Minute, Partition
from benchmarks.linear_road.places import Accidents, Expenditures
from benchmarks.linear_road.rows import EXPENDITURE, LIMITS, REPORT, SEGMENTS, Columns, to_minute
from tidemill.stream.keyed import merge_outputs
from tidemill.stream.layout import RowLayout
from tidemill.stream.state_blocks import rebuild_table

MINUTE = 60
REPORTED = ("lav", "toll", "accident")
CONDITIONS = RowLayout(("segment",), dict.fromkeys((*REPORTED, "begins"), "i8"))
DRIVEN = ("type", "time", "vid", "spd", "xway", "lane", "dir", "seg", "pos", "qid")
"""The columns of reports and balance queries."""


class LinearRoad:
    """The workflow with its state. A batch contains all rows of its seconds."""

    def __init__(self, expressways: int, history: Columns, partitions: int = 1) -> None:
        self._roads = expressways * 2
        self._accidents = Accidents()
        self._expenditures = Expenditures(history)
        self._begins: int | None = None  # the second at which this minute begins
        self._conditions = Conditions.create_empty(self._roads)
        self.partitions = [Partition() for _ in range(partitions)]

    def run(self, batch: Columns) -> tuple[dict[str, Columns], dict[str, list[pa.Table]]]:
        """The answers to a batch, by kind, and the deltas of all parts of the state, in order."""
        answers: list[Mapping[str, Columns]] = [
            {"expenditures": self._expenditures.answer(_select_type(batch, EXPENDITURE))}
        ]
        deltas: dict[str, list[pa.Table]] = defaultdict(list)
        for rows in _split_minutes(_sort_rows(batch)):
            self._begin_minute(int(to_minute(rows["time"][:1])[0] - 1) * MINUTE, deltas)
            for number, part in self._split_rows(rows):
                driving = self.partitions[number].drive(part, self._conditions)
                answers.append({kind: driving.outputs[kind] for kind in LIMITS if kind in driving.outputs})
                self._add_deltas(number, driving, deltas)
        return {**_NO_ANSWERS, **merge_outputs(answers)}, deltas

    def set_history(self, history: Columns) -> None:
        """Replace the tolls of past days."""
        self._expenditures = Expenditures(history)

    def restore(self, blocks: Blocks) -> None:
        """Restore the state from its deltas, including that of the current minute."""
        newest = rebuild_table(CONDITIONS, blocks["conditions"]).read_all()
        newest = newest[np.argsort(newest["segment"])]
        self._begins = int(newest["begins"][0])
        self._conditions = Conditions(*(newest[name].copy() for name in REPORTED))
        self._accidents.restore(blocks["accidents"])
        for number, part in enumerate(self.partitions):
            prefix = f"{number} "
            blocks_of_part = {
                name.removeprefix(prefix): tables for name, tables in blocks.items() if name.startswith(prefix)
            }
            if blocks_of_part:
                part.restore(blocks_of_part, self._begins)

    def _add_deltas(self, number: int, driving: BatchEffect, deltas: dict[str, list[pa.Table]]) -> None:
        deltas["accidents"].append(self._accidents.update(driving.outputs["stops"]))
        for name, delta in driving.deltas.items():
            deltas[f"{number} {name}"].append(delta)

    def _begin_minute(self, begins: int, deltas: dict[str, list[pa.Table]]) -> None:
        """Before the first rows of a minute, compute its conditions from the earlier minutes."""
        if begins == self._begins:
            return
        self._begins = begins
        finished = Minute.empty(self._roads)
        for part in self.partitions:
            part.close(begins, finished)
        stopped = self._accidents.count_by_segment(self._roads)
        self._conditions = Conditions.from_sums(finished.speed, finished.reports, finished.cars, stopped)
        conditions = {name: getattr(self._conditions, name) for name in REPORTED}
        segments = np.arange(self._roads * SEGMENTS)
        deltas["conditions"].append(
            pa.table({"segment": segments, **conditions, "begins": np.full(len(segments), begins)})
        )

    def _split_rows(self, rows: Columns) -> Iterator[tuple[int, Columns]]:
        if len(self.partitions) == 1:
            yield 0, rows
            return
        home = rows["vid"] % len(self.partitions)
        for number in np.unique(home).tolist():
            yield number, {name: column[home == number] for name, column in rows.items()}


def _sort_rows(batch: Columns) -> Columns:
    """Reports and balance queries by time; reports of a second come first, so that a balance includes its charges."""
    selected = np.flatnonzero(batch["type"] != EXPENDITURE)
    order = selected[np.lexsort((batch["type"][selected] != REPORT, batch["time"][selected]))]
    return {name: batch[name][order] for name in DRIVEN}


def _select_type(batch: Columns, kind: int) -> Columns:
    return {name: column[batch["type"] == kind] for name, column in batch.items()}


def _split_minutes(rows: Columns) -> Iterator[Columns]:
    cuts = np.flatnonzero(np.diff(to_minute(rows["time"]))) + 1
    for begin, end in pairwise([0, *cuts.tolist(), len(rows["time"])]):
        if begin < end:
            yield {name: column[begin:end] for name, column in rows.items()}


_NO_ANSWERS: Mapping[str, Columns] = {
    "tolls": dict.fromkeys(("vid", "time", "lav", "toll"), NO_VALUES),
    "accidents": dict.fromkeys(("time", "xway", "seg", "dir", "vid"), NO_VALUES),
    "balances": dict.fromkeys(("time", "result_time", "qid", "balance"), NO_VALUES),
    "expenditures": dict.fromkeys(("time", "qid", "balance"), NO_VALUES),
}
"""No answers."""
