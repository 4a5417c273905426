"""The keyed function of vehicles: it processes reports by the state of the vehicle and the conditions of the minute.

The keyed-state operator passes one row of state for each event, no vehicle twice; the function processes all of them at
once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from benchmarks.linear_road.conditions import Conditions, compute_segment
from benchmarks.linear_road.rows import ENTRY, EXIT, REPORT, Column
from tidemill.stream.keyed import Columns, KeyedResult
from tidemill.stream.layout import RowLayout, Rows

Mask = npt.NDArray[np.bool_]

LAYOUT = RowLayout(
    ("vid",),
    {
        "balance": "i8",
        "quoted": "i8",  # the toll quoted at the trip's last crossing
        "time": "i4",  # of the last report, as are the following columns
        "pos": "i4",
        "xway": "i4",
        "alike": "i4",  # consecutive reports from the same place
        "seg": "i2",
        "dir": "i1",
        "lane": "i1",
        "status": "i1",
    },
)
UNKNOWN, DRIVING, LEFT = 0, 1, 2

TRIP_GAP = 60  # seconds without a report after which an entry begins a new trip
STOPPED = 4  # consecutive reports from the same place


@dataclass(frozen=True, slots=True)
class VehicleFunction:
    """The function, with the conditions of a minute."""

    conditions: Conditions

    def __call__(self, state: Rows, batch: Columns) -> KeyedResult:
        report = batch["type"] == REPORT
        balances = _answer_balances(state[~report], {name: batch[name][~report] for name in ("time", "qid")})
        if not report.all():
            batch = {name: c[report] for name, c in batch.items()}
        before = state[report]
        after, outputs = self._process_reports(before, batch)
        changed = report.copy()
        changed[report] = _find_accepted(before, batch)
        state[report] = after
        return KeyedResult(state, outputs | {"balances": balances}, changed)

    def _process_reports(self, before: Rows, batch: Columns) -> tuple[Rows, dict[str, Columns]]:
        accepted = _find_accepted(before, batch)
        starts = _find_trip_starts(before, batch)
        crossing = accepted & (starts | (before["seg"] != batch["seg"]))
        place = compute_segment(batch["xway"], batch["dir"], batch["seg"])
        lav, toll, accident = self.conditions.get_at(place)
        after = _update_vehicles(before, batch, starts, crossing, toll)
        notified = crossing & (batch["lane"] != EXIT)
        warned = notified & (accident >= 0)
        outputs = {
            "tolls": _select_rows(notified, vid=batch["vid"], time=batch["time"], lav=lav, toll=toll),
            "accidents": _select_rows(warned, seg=accident, **{n: batch[n] for n in ("time", "xway", "dir", "vid")}),
            "seen": _select_rows(accepted, segment=place, **{n: batch[n] for n in ("time", "vid", "spd")}),
            "stops": _find_stops(before, after, accepted),
        }
        return after, outputs


def _find_accepted(before: Rows, batch: Columns) -> Mask:
    """A mask of valid reports: after an exit only entries are, and no exit of an unknown vehicle is."""
    status, lane = before["status"], batch["lane"]
    accepted: Mask = np.where(status == UNKNOWN, lane != EXIT, (status == DRIVING) | (lane == ENTRY))
    return accepted


def _find_trip_starts(before: Rows, batch: Columns) -> Mask:
    """A mask of the reports that begin a trip, if they are valid."""
    elsewhere = (before["xway"] != batch["xway"]) | (before["dir"] != batch["dir"])
    again = (batch["lane"] == ENTRY) & (batch["time"] - before["time"] > TRIP_GAP)
    starts: Mask = (before["status"] != DRIVING) | elsewhere | again
    return starts


def _update_vehicles(before: Rows, batch: Columns, starts: Mask, crossing: Mask, toll: Column) -> Rows:
    """The vehicles after their reports. A crossing within a trip charges the toll quoted at the previous one."""
    after = before.copy()
    after["balance"] += np.where(crossing & ~starts, before["quoted"], 0)
    after["quoted"] = np.where(crossing, toll, before["quoted"])
    after["alike"] = np.where(_is_same_place(before, batch), before["alike"] + 1, 1)
    after["status"] = np.where(batch["lane"] == EXIT, LEFT, DRIVING)
    for name in ("time", "pos", "xway", "seg", "dir", "lane"):
        after[name] = batch[name]
    return after


def _is_same_place(before: Rows, batch: Columns) -> Mask:
    same = [before[name] == batch[name] for name in ("pos", "lane", "dir", "xway")]
    alike: Mask = np.logical_and.reduce(same) & (before["status"] != UNKNOWN)
    return alike


def _find_stops(before: Rows, after: Rows, accepted: Mask) -> Columns:
    """Places in which vehicles have stopped (+1), and places that stopped vehicles have left (-1)."""
    departed = accepted & (before["alike"] >= STOPPED) & (after["alike"] == 1)
    stopped = accepted & (after["alike"] == STOPPED)
    place = np.concatenate([_compute_place(before[departed]), _compute_place(after[stopped])])
    return {"place": place, "more": np.repeat([-1, 1], [departed.sum(), stopped.sum()])}


def _compute_place(rows: Rows) -> Column:
    """A number for road, lane and position; positions are below 2 ** 20."""
    road = rows["xway"].astype(np.int64) * 2 + rows["dir"]
    place: Column = (road * 8 + rows["lane"]) * 2**20 + rows["pos"]
    return place


def split_place(place: Column) -> tuple[Column, Column]:
    return place // 2**23, place % 2**20


def _answer_balances(state: Rows, queries: Columns) -> Columns:
    """Answers to balance queries; a balance includes the charges of the second of the query."""
    time = queries["time"]
    return {"time": time, "result_time": time, "qid": queries["qid"], "balance": state["balance"].copy()}


def _select_rows(which: Mask, **columns: Column) -> Columns:
    return {name: column[which] for name, column in columns.items()}
