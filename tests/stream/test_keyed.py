"""Keyed state equals a dict of rows that processes one event after the other."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tidemill.stream.keyed import Columns, KeyedResult, run_batch
from tidemill.stream.layout import RowLayout, Rows
from tidemill.stream.state_blocks import rebuild_table, to_arrow_table
from tidemill.stream.table import MIN_CAPACITY, StateTable

LAYOUT = RowLayout(("road", "vehicle"), {"sum": "i8", "seen": "i4", "odd": "?"})

events = st.lists(
    st.tuples(st.integers(-2, 2), st.integers(-(2**63), 2**63 - 1) | st.integers(0, 5), st.integers(-9, 9))
)


def add_amounts(state: Rows, batch: Columns) -> KeyedResult:
    """Sums and counts; even amounts change no state, but their sum is reported."""
    odd = batch["amount"] % 2 != 0
    state["sum"] += batch["amount"]
    state["seen"] += 1
    state["odd"] = True
    return KeyedResult(state, {"sums": {"vehicle": batch["vehicle"], "sum": state["sum"].copy()}}, changed=odd)


def to_columns(batch: list[tuple[int, int, int]]) -> Columns:
    road, vehicle, amount = (np.array([e[n] for e in batch], np.int64) for n in range(3))
    return {"road": road, "vehicle": vehicle, "amount": amount}


def process_one_by_one(
    state: dict[tuple[int, int], tuple[int, int]], batch: list[tuple[int, int, int]]
) -> list[tuple[int, int]]:
    sums = []
    for road, vehicle, amount in batch:
        total, seen = state.setdefault((road, vehicle), (0, 0))
        sums.append((vehicle, total + amount))
        if amount % 2:
            state[road, vehicle] = (total + amount, seen + 1)
    return sums


def to_dict(rows: Rows) -> dict[tuple[int, int], tuple[int, int]]:
    return {(int(r["road"]), int(r["vehicle"])): (int(r["sum"]), int(r["seen"])) for r in rows}


@given(st.lists(events, max_size=4))
def test_a_batch_equals_its_events_one_by_one(batches: list[list[tuple[int, int, int]]]) -> None:
    table, expected, blocks = StateTable.create_table(LAYOUT), {}, []
    for batch in batches:
        outcome = run_batch(table, to_columns(batch), add_amounts)
        sums = outcome.outputs.get("sums", {"vehicle": np.array([]), "sum": np.array([])})
        assert sorted(zip(sums["vehicle"], sums["sum"], strict=True)) == sorted(process_one_by_one(expected, batch))
        assert to_dict(outcome.changed).items() <= expected.items()
        blocks.append(to_arrow_table(outcome.changed, LAYOUT))
    assert to_dict(table.read_all()) == expected
    changed = {key: row for key, row in expected.items() if row[1]}
    assert to_dict(rebuild_table(LAYOUT, blocks).read_all()) == changed


def test_a_growing_table_keeps_its_rows() -> None:
    table, random = StateTable.create_table(LAYOUT), np.random.default_rng(5)
    vehicles = random.integers(0, 2**62, 20 * MIN_CAPACITY)
    for part in np.array_split(vehicles, 7):
        run_batch(table, {"road": part % 3, "vehicle": part, "amount": part}, add_amounts)
    odd = vehicles[vehicles % 2 == 1]
    rows = table.read(table.find_slots((odd % 3, odd)))
    assert np.array_equal(rows["sum"], odd)
    assert (table.find_slots((odd % 3 + 3, odd)) == -1).all()
    assert table.count == len(vehicles)
