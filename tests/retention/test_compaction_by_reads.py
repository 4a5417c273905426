"""Major compactions caused by reads: they cost at most about twice as much as an optimal schedule."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemill.model.block import Block, BlockKind, DataFile
from tidemill.model.change import Append, Patch, Updates, Upsert
from tidemill.model.schema import Schema
from tidemill.model.view import Snapshot
from tidemill.retention.compaction import (
    PRICES,
    CompactionLimits,
    MajorCompaction,
    MergeBalance,
    choose_compaction,
    estimate_merge_seconds,
)

SCHEMA = Schema.from_ddl("k int, v int")
KEYED = Upsert(("k",))
LIMITS = CompactionLimits(fan=1000, floor=10**12)
"""No compaction is due except because of reads."""
READ = 0
"""A read among the numbers of written rows of a history."""

histories = st.lists(st.one_of(st.just(READ), st.integers(1, 500_000)), max_size=40)
prices = st.floats(0.01, 5.0)


def build_content(base: int, *deltas: int, updates: Updates = KEYED) -> Snapshot:
    first = Block(0, "c", 0, BlockKind.BASE, SCHEMA, files=(DataFile("base", base, 1),))
    after = [
        Block(n, "c", n, BlockKind.DELTA, SCHEMA, n - 1, updates, (DataFile(f"{n}", rows, 1),))
        for n, rows in enumerate(deltas, start=1)
    ]
    return Snapshot("c", SCHEMA, len(deltas), first, tuple(after))


@dataclass
class SimulatedChannel:
    """A channel with compactions by the rule, and the cost of its reads and compactions."""

    price: float
    seconds: float = 0.0
    excess: float = 0.0  # of the last read before each compaction over the price
    reads: int = 0
    merge_seconds: float = 0.0
    deltas: tuple[int, ...] = ()

    def simulate(self, history: list[int]) -> SimulatedChannel:
        for rows in history:
            self._read() if rows == READ else self._write(rows)
            now = build_content(10**6, *self.deltas)
            if choose_compaction(
                now, MergeBalance(self.reads, self.merge_seconds, self.price), LIMITS
            ).compaction == MajorCompaction(now):
                self._rewrite()
        return self

    def _write(self, rows: int) -> None:
        self.deltas = (*self.deltas, rows)

    def _read(self) -> None:
        spent = estimate_merge_seconds(build_content(10**6, *self.deltas))
        self.reads, self.merge_seconds, self.seconds = (
            self.reads + bool(spent),
            self.merge_seconds + spent,
            self.seconds + spent,
        )

    def _rewrite(self) -> None:
        self.seconds += self.price
        self.excess += self.merge_seconds - self.price
        self.reads, self.merge_seconds, self.deltas = 0, 0.0, ()


def find_optimal_cost(history: list[int], price: float) -> float:
    """The minimal cost, found by trying each choice after each event."""

    @cache
    def cost_after(position: int, since: int) -> float:
        if position == len(history):
            return 0.0
        written = [rows for rows in history[since:position] if rows != READ]
        spent = estimate_merge_seconds(build_content(10**6, *written)) if history[position] == READ else 0.0
        return spent + min(cost_after(position + 1, since), price + cost_after(position + 1, position + 1))

    return cost_after(0, 0)


@given(histories, prices)
def test_the_cost_is_at_most_twice_the_optimum_plus_the_last_read(history: list[int], price: float) -> None:
    channel = SimulatedChannel(price).simulate(history)
    assert channel.seconds <= 2 * find_optimal_cost(history, price) + channel.excess + 1e-9


@given(st.lists(st.integers(1, 500_000), max_size=40), prices)
def test_a_channel_without_reads_is_not_compacted(history: list[int], price: float) -> None:
    assert SimulatedChannel(price).simulate(history).seconds == 0.0


def test_reads_pay_for_deltas_and_rows_but_not_for_appended_ones() -> None:
    assert estimate_merge_seconds(build_content(100)) == 0.0
    assert estimate_merge_seconds(build_content(100, 50, 50)) == pytest.approx(
        PRICES.merge + 2 * PRICES.delta + 100 * PRICES.row
    )
    assert estimate_merge_seconds(
        build_content(100, 50, updates=Patch(("k",), ("k",), ("v",)))
    ) > estimate_merge_seconds(build_content(100, 50))
    assert estimate_merge_seconds(build_content(100, 50, updates=Append())) == 0.0


def test_a_lookup_of_few_keys_costs_less_than_a_full_merge() -> None:
    assert (
        0.0
        < estimate_merge_seconds(build_content(100, 10**6), full=False)
        < 0.1 * estimate_merge_seconds(build_content(100, 10**6))
    )


def test_the_choice_has_a_reason_with_figures() -> None:
    little = choose_compaction(build_content(100, 7), MergeBalance(2, 0.2, 1.5), LIMITS)
    assert little.compaction is None
    assert little.reason == (
        "7 rows wait to be merged into 100: 2 reads have paid 0.20 s for merging since the newest base, "
        "and a new one costs 1.50 s"
    )
    enough = choose_compaction(build_content(100, 7), MergeBalance(9, 1.6, 1.5), LIMITS)
    assert isinstance(enough.compaction, MajorCompaction)
    assert enough.reason.startswith("9 reads have paid 1.60 s")
    assert choose_compaction(build_content(100), MergeBalance(0, 0.0, 1.5), LIMITS).reason == "nothing to merge"


@pytest.mark.parametrize(
    ("waiting", "rows", "compacted"), [(1, 150_000, True), (0, 150_000, False), (1, 90_000, False)]
)
def test_a_channel_with_interactive_reads_is_compacted_earlier(waiting: int, rows: int, compacted: bool) -> None:
    """The reads have paid far less than a new base costs, but an interactive read must be fast."""
    first = Block(0, "c", 0, BlockKind.BASE, SCHEMA, files=(DataFile("base", 10**6, 50_000_000),))
    delta = Block(1, "c", 1, BlockKind.DELTA, SCHEMA, 0, KEYED, (DataFile("1", rows, 1),))
    choice = choose_compaction(Snapshot("c", SCHEMA, 1, first, (delta,)), MergeBalance(1, 0.1, 9.0, waiting))
    assert (choice.compaction is not None) == compacted, choice
