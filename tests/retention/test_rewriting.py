"""When a channel is rewritten because it is read: never at more than about twice the price of knowing the future."""

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
"""Nothing is due but for reading's sake."""
READ = 0
"""Among the numbers of rows that are written."""

histories = st.lists(st.one_of(st.just(READ), st.integers(1, 500_000)), max_size=40)
prices = st.floats(0.01, 5.0)


def content(base: int, *deltas: int, updates: Updates = KEYED) -> Snapshot:
    first = Block(0, "c", 0, BlockKind.BASE, SCHEMA, files=(DataFile("base", base, 1),))
    after = [
        Block(n, "c", n, BlockKind.DELTA, SCHEMA, n - 1, updates, (DataFile(f"{n}", rows, 1),))
        for n, rows in enumerate(deltas, start=1)
    ]
    return Snapshot("c", SCHEMA, len(deltas), first, tuple(after))


@dataclass
class Lived:
    """A channel that is rewritten as the rule says: what readers and rewriting cost together."""

    price: float
    seconds: float = 0.0
    beyond: float = 0.0  # by which the last read before each rewriting brought what was paid above the price
    reads: int = 0
    paid: float = 0.0
    deltas: tuple[int, ...] = ()

    def live(self, history: list[int]) -> Lived:
        for rows in history:
            self._read() if rows == READ else self._write(rows)
            now = content(10**6, *self.deltas)
            if choose_compaction(
                now, MergeBalance(self.reads, self.paid, self.price), LIMITS
            ).compaction == MajorCompaction(now):
                self._rewrite()
        return self

    def _write(self, rows: int) -> None:
        self.deltas = (*self.deltas, rows)

    def _read(self) -> None:
        spent = estimate_merge_seconds(content(10**6, *self.deltas))
        self.reads, self.paid, self.seconds = self.reads + bool(spent), self.paid + spent, self.seconds + spent

    def _rewrite(self) -> None:
        self.seconds += self.price
        self.beyond += self.paid - self.price
        self.reads, self.paid, self.deltas = 0, 0.0, ()


def best(history: list[int], price: float) -> float:
    """The least that it could have cost, found by trying to rewrite or not to after each event."""

    @cache
    def after(at: int, since: int) -> float:
        if at == len(history):
            return 0.0
        written = [rows for rows in history[since:at] if rows != READ]
        spent = estimate_merge_seconds(content(10**6, *written)) if history[at] == READ else 0.0
        return spent + min(after(at + 1, since), price + after(at + 1, at + 1))

    return after(0, 0)


@given(histories, prices)
def test_it_costs_at_most_twice_the_best_but_for_the_read_that_decided(history: list[int], price: float) -> None:
    lived = Lived(price).live(history)
    assert lived.seconds <= 2 * best(history, price) + lived.beyond + 1e-9


@given(st.lists(st.integers(1, 500_000), max_size=40), prices)
def test_what_nobody_reads_is_not_rewritten(history: list[int], price: float) -> None:
    assert Lived(price).live(history).seconds == 0.0


def test_readers_pay_for_deltas_and_rows_but_not_for_appended_ones() -> None:
    assert estimate_merge_seconds(content(100)) == 0.0
    assert estimate_merge_seconds(content(100, 50, 50)) == pytest.approx(
        PRICES.merge + 2 * PRICES.delta + 100 * PRICES.row
    )
    assert estimate_merge_seconds(content(100, 50, updates=Patch(("k",), ("k",), ("v",)))) > estimate_merge_seconds(
        content(100, 50)
    )
    assert estimate_merge_seconds(content(100, 50, updates=Append())) == 0.0


def test_looking_up_a_few_keys_costs_less_than_merging_all() -> None:
    assert (
        0.0
        < estimate_merge_seconds(content(100, 10**6), full=False)
        < 0.1 * estimate_merge_seconds(content(100, 10**6))
    )


def test_the_verdict_says_why_with_figures() -> None:
    little = choose_compaction(content(100, 7), MergeBalance(2, 0.2, 1.5), LIMITS)
    assert little.compaction is None
    assert little.reason == (
        "7 rows wait to be merged into 100: 2 reads have paid 0.20 s for merging since the newest base, "
        "and a new one costs 1.50 s"
    )
    enough = choose_compaction(content(100, 7), MergeBalance(9, 1.6, 1.5), LIMITS)
    assert isinstance(enough.compaction, MajorCompaction)
    assert enough.reason.startswith("9 reads have paid 1.60 s")
    assert choose_compaction(content(100), MergeBalance(0, 0.0, 1.5), LIMITS).reason == "nothing to merge"


@pytest.mark.parametrize(("asked", "rows", "rewritten"), [(1, 150_000, True), (0, 150_000, False), (1, 90_000, False)])
def test_whoever_waits_for_reads_does_not_wait_much_longer(asked: int, rows: int, rewritten: bool) -> None:
    """What reads have paid is far from the price of a new base; still, one by somebody is to be quick."""
    first = Block(0, "c", 0, BlockKind.BASE, SCHEMA, files=(DataFile("base", 10**6, 50_000_000),))
    delta = Block(1, "c", 1, BlockKind.DELTA, SCHEMA, 0, KEYED, (DataFile("1", rows, 1),))
    found = choose_compaction(Snapshot("c", SCHEMA, 1, first, (delta,)), MergeBalance(1, 0.1, 9.0, asked))
    assert (found.compaction is not None) == rewritten, found
