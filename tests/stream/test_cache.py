"""Cached state spares reading, and never changes an answer."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemill.stream.cache import PAGE, StateCache, StatePartition, run_cached
from tidemill.stream.keyed import Columns, KeyedResult, run_batch
from tidemill.stream.layout import RowLayout, Rows
from tidemill.stream.state_blocks import rebuild_table, to_arrow_table
from tidemill.stream.table import StateTable

LAYOUT = RowLayout(("account",), {"balance": "i8", "times": "i2"})


def paying(state: Rows, batch: Columns) -> KeyedResult:
    state["balance"] += batch["amount"]
    state["times"] += 1
    return KeyedResult(state, {"balances": {"account": batch["account"], "balance": state["balance"].copy()}})


class Bank:
    """Batches against cached state, as a server would run them: each leaves a delta, which is committed or not."""

    def __init__(self, directory: Path) -> None:
        self.cache = StateCache(directory)
        self.file = directory / "p0"
        self.blocks: list[pa.Table] = []
        self.attempts = 0
        self.rebuilds = 0
        self.version = "nothing"
        self._chance = np.random.default_rng(1)
        self._plain = StateTable.create_table(LAYOUT)

    def batch(self, *, commits: bool = True) -> None:
        """What comes out must be what state that was never cached gives."""
        accounts = self._chance.integers(0, 3000, 400)
        events = {"account": accounts, "amount": self._chance.integers(-50, 50, 400)}
        self.attempts += 1
        part = StatePartition("p0", LAYOUT, self.version, f"attempt {self.attempts}")
        outcome = run_cached(self.cache, part, self._rebuild, events, paying)
        expected = run_batch(self._plain if commits else self._copy(), events, paying)
        assert np.array_equal(outcome.outputs["balances"]["balance"], expected.outputs["balances"]["balance"])
        if commits:
            self.blocks.append(to_arrow_table(outcome.changed, LAYOUT))
            self.version = part.following

    def _rebuild(self) -> StateTable:
        self.rebuilds += 1
        return rebuild_table(LAYOUT, self.blocks)

    def _copy(self) -> StateTable:
        return rebuild_table(LAYOUT, [to_arrow_table(self._plain.read_all(), LAYOUT)])


@pytest.fixture
def bank(tmp_path: Path) -> Iterator[Bank]:
    bank = Bank(tmp_path)
    bank.batch()
    yield bank
    for _ in range(3):
        bank.batch()


def test_state_is_rebuilt_once_and_cached_from_then_on(bank: Bank) -> None:
    for _ in range(5):
        bank.batch()
    assert bank.rebuilds == 1


def test_what_an_attempt_left_that_was_not_committed_is_not_used(bank: Bank) -> None:
    bank.batch(commits=False)
    bank.batch()
    assert bank.rebuilds == 2


def test_a_batch_that_died_leaves_nothing_to_use(bank: Bank) -> None:
    with bank.cache.acquire_state("p0", LAYOUT, bank.version, bank._rebuild) as held:
        held.table.words[:] = 0
    bank.batch()
    assert bank.rebuilds == 2


def test_a_file_that_somebody_else_holds_is_left_alone(bank: Bank) -> None:
    before = bank.file.read_bytes()
    with bank.file.with_name("p0.lock").open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        bank.batch()
    assert bank.rebuilds == 2
    assert bank.file.read_bytes() == before


@pytest.mark.parametrize("left", [0, 10, PAGE, PAGE + 999])
def test_a_file_that_was_cut_off_is_not_used(bank: Bank, left: int) -> None:
    bank.file.write_bytes(bank.file.read_bytes()[:left])
    bank.batch()
    assert bank.rebuilds == 2


def test_another_layout_is_not_used(bank: Bank) -> None:
    other = RowLayout(("account",), {"balance": "f8", "times": "i2"})
    with bank.cache.acquire_state("p0", other, bank.version, lambda: StateTable.create_table(other)) as held:
        assert held.table.count == 0


@given(st.data())
def test_damage_anywhere_changes_no_answer(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """A stretch of the file is overwritten: with zeros, with ones, or with another stretch of it."""
    bank = Bank(tmp_path_factory.mktemp("bank"))
    bank.batch()
    content = bytearray(bank.file.read_bytes())
    begin = data.draw(st.integers(0, len(content) - 8))
    length = min(data.draw(st.integers(8, len(content) // 2)), len(content) - begin)
    elsewhere = data.draw(st.integers(0, len(content) - length))
    content[begin : begin + length] = {
        "zeros": bytes(length),
        "ones": b"\xff" * length,
        "another part": bytes(content[elsewhere : elsewhere + length]),
    }[data.draw(st.sampled_from(["zeros", "ones", "another part"]))]
    bank.file.write_bytes(content)
    for _ in range(3):
        bank.batch()
    assert bank.rebuilds <= 2


def test_rows_in_the_slots_of_others_are_noticed(bank: Bank) -> None:
    """Each row is sound by itself, and would pass for that of another key: the account would start anew."""
    content = bank.file.read_bytes()
    row = LAYOUT.dtype.itemsize
    used = PAGE + row * len(np.unique(bank.blocks[0]["account"].to_numpy()))
    rows = content[PAGE:used]
    bank.file.write_bytes(content[:PAGE] + rows[row:] + rows[:row] + content[used:])
    bank.batch()
    assert bank.rebuilds == 2


def test_every_damaged_row_and_cell_is_noticed(bank: Bank) -> None:
    """Zeroing all after the head must be noticed by the next batch: an empty cell is not a cell of zeros."""
    content = bank.file.read_bytes()
    bank.file.write_bytes(content[:PAGE] + bytes(len(content) - PAGE))
    bank.batch()
    assert bank.rebuilds == 2
