"""Cached state saves reading and never changes a result."""

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


def add_payments(state: Rows, batch: Columns) -> KeyedResult:
    state["balance"] += batch["amount"]
    state["times"] += 1
    return KeyedResult(state, {"balances": {"account": batch["account"], "balance": state["balance"].copy()}})


class CachedAccounts:
    """Batches on cached state, as a server runs them: each writes a delta, which is committed or not."""

    def __init__(self, directory: Path) -> None:
        self.cache = StateCache(directory)
        self.file = directory / "p0"
        self.blocks: list[pa.Table] = []
        self.attempts = 0
        self.rebuilds = 0
        self.version = "nothing"
        self._random = np.random.default_rng(1)
        self._uncached = StateTable.create_table(LAYOUT)

    def batch(self, *, commits: bool = True) -> None:
        """Run a batch; its output must equal that of state that was never cached."""
        numbers = self._random.integers(0, 3000, 400)
        events = {"account": numbers, "amount": self._random.integers(-50, 50, 400)}
        self.attempts += 1
        part = StatePartition("p0", LAYOUT, self.version, f"attempt {self.attempts}")
        outcome = run_cached(self.cache, part, self._rebuild, events, add_payments)
        expected = run_batch(self._uncached if commits else self._copy(), events, add_payments)
        assert np.array_equal(outcome.outputs["balances"]["balance"], expected.outputs["balances"]["balance"])
        if commits:
            self.blocks.append(to_arrow_table(outcome.changed, LAYOUT))
            self.version = part.following

    def _rebuild(self) -> StateTable:
        self.rebuilds += 1
        return rebuild_table(LAYOUT, self.blocks)

    def _copy(self) -> StateTable:
        return rebuild_table(LAYOUT, [to_arrow_table(self._uncached.read_all(), LAYOUT)])


@pytest.fixture
def accounts(tmp_path: Path) -> Iterator[CachedAccounts]:
    accounts = CachedAccounts(tmp_path)
    accounts.batch()
    yield accounts
    for _ in range(3):
        accounts.batch()


def test_state_is_rebuilt_once_and_then_cached(accounts: CachedAccounts) -> None:
    for _ in range(5):
        accounts.batch()
    assert accounts.rebuilds == 1


def test_the_state_of_an_uncommitted_attempt_is_not_used(accounts: CachedAccounts) -> None:
    accounts.batch(commits=False)
    accounts.batch()
    assert accounts.rebuilds == 2


def test_the_state_of_an_interrupted_batch_is_not_used(accounts: CachedAccounts) -> None:
    with accounts.cache.acquire_state("p0", LAYOUT, accounts.version, accounts._rebuild) as state:
        state.table.words[:] = 0
    accounts.batch()
    assert accounts.rebuilds == 2


def test_a_file_locked_by_another_process_is_not_used(accounts: CachedAccounts) -> None:
    before = accounts.file.read_bytes()
    with accounts.file.with_name("p0.lock").open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        accounts.batch()
    assert accounts.rebuilds == 2
    assert accounts.file.read_bytes() == before


@pytest.mark.parametrize("size", [0, 10, PAGE, PAGE + 999])
def test_a_truncated_file_is_not_used(accounts: CachedAccounts, size: int) -> None:
    accounts.file.write_bytes(accounts.file.read_bytes()[:size])
    accounts.batch()
    assert accounts.rebuilds == 2


def test_state_of_another_layout_is_not_used(accounts: CachedAccounts) -> None:
    other = RowLayout(("account",), {"balance": "f8", "times": "i2"})
    with accounts.cache.acquire_state("p0", other, accounts.version, lambda: StateTable.create_table(other)) as state:
        assert state.table.count == 0


@given(st.data())
def test_damage_anywhere_changes_no_result(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """A part of the file is overwritten with zeros, with ones, or with another part of it."""
    accounts = CachedAccounts(tmp_path_factory.mktemp("accounts"))
    accounts.batch()
    content = bytearray(accounts.file.read_bytes())
    begin = data.draw(st.integers(0, len(content) - 8))
    length = min(data.draw(st.integers(8, len(content) // 2)), len(content) - begin)
    elsewhere = data.draw(st.integers(0, len(content) - length))
    content[begin : begin + length] = {
        "zeros": bytes(length),
        "ones": b"\xff" * length,
        "another part": bytes(content[elsewhere : elsewhere + length]),
    }[data.draw(st.sampled_from(["zeros", "ones", "another part"]))]
    accounts.file.write_bytes(content)
    for _ in range(3):
        accounts.batch()
    assert accounts.rebuilds <= 2


def test_rows_in_wrong_slots_are_detected(accounts: CachedAccounts) -> None:
    """Each row is valid by itself, but is stored in the slot of another key: the account would start from zero."""
    content = accounts.file.read_bytes()
    row = LAYOUT.dtype.itemsize
    used = PAGE + row * len(np.unique(accounts.blocks[0]["account"].to_numpy()))
    rows = content[PAGE:used]
    accounts.file.write_bytes(content[:PAGE] + rows[row:] + rows[:row] + content[used:])
    accounts.batch()
    assert accounts.rebuilds == 2


def test_every_damaged_row_and_cell_is_detected(accounts: CachedAccounts) -> None:
    """The next batch must detect that everything after the header is zero: an empty cell is not a cell of zeros."""
    content = accounts.file.read_bytes()
    accounts.file.write_bytes(content[:PAGE] + bytes(len(content) - PAGE))
    accounts.batch()
    assert accounts.rebuilds == 2
