"""Which way a declared table is refreshed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tidemill.algebra.program import MAX_COLLECTED_ROWS
from tidemill.planner.cost import SPREAD_FACTOR, CostModel, ScanVolume
from tidemill.planner.graph import DataSize
from tidemill.planner.refresh_mode import (
    COMPACTION_BYTE_SECONDS,
    MAJOR_COMPACTION_SHARE,
    PRIORS,
    ChannelReading,
    RefreshChoice,
    StateStatus,
    build_prior,
    choose_mode,
    estimate_compaction,
)
from tidemill.retention.compaction import LIMITS

MILLION = 1_000_000


def way(content: int, change: int, **learnt: CostModel) -> str:
    return choose_mode([ChannelReading("clicks", content, change)], learnt).mode


def ran(name: str, times: float, runs: int = 1, content: int = MILLION, change: int = 1_000) -> CostModel:
    """A way that took so many times what was guessed."""
    known, at = build_prior(name, 1), ScanVolume(change if name == "incremental" else 0, content)
    for _ in range(runs):
        known = known.add_run(at, times * PRIORS[name].compute_cost(at), [DataSize(1, 1)])
    return known


@pytest.mark.parametrize(
    ("share", "expected"), [(0.001, "incremental"), (0.1, "incremental"), (0.5, "batch"), (1.0, "batch")]
)
def test_a_small_change_is_taken_in_and_a_large_one_recomputed(share: float, expected: str) -> None:
    before = 20 * MILLION
    change = int(before * share)
    assert way(before + change, change) == expected


def test_rows_that_cannot_be_collected_cost_more() -> None:
    most = [
        choose_mode([ChannelReading("clicks", 9 * MAX_COLLECTED_ROWS, n)], {}).options[-1].seconds or 0.0
        for n in (MAX_COLLECTED_ROWS, MAX_COLLECTED_ROWS + 1)
    ]
    terms = PRIORS["incremental"]
    assert most[1] - most[0] == pytest.approx((SPREAD_FACTOR - 1) * terms.change * MAX_COLLECTED_ROWS, rel=0.001)


def test_what_compaction_costs_right_after_a_large_change_counts() -> None:
    assert pytest.approx(2 * MAJOR_COMPACTION_SHARE / (1 - MAJOR_COMPACTION_SHARE)) == LIMITS.share, (
        "signed rows, of the base without what changed"
    )
    change = int(MAJOR_COMPACTION_SHARE * MILLION)
    read = [ChannelReading("c", MILLION, n, bytes=50 * MILLION) for n in (change, change + 1)]
    less, more = (choose_mode([reading], {}).options[-1].seconds or 0.0 for reading in read)
    one = PRIORS["incremental"].change
    assert more - less == pytest.approx(COMPACTION_BYTE_SECONDS * 50 * MILLION + one, rel=0.01)


def test_what_compaction_costs_is_a_matter_of_the_result_not_of_what_it_was_made_of() -> None:
    at = ScanVolume(0, MILLION, 50 * MILLION)
    batch = build_prior("batch", 1).add_run(at, 1.0, [DataSize(1_000, 50_000)])  # a thousandth
    extra = [estimate_compaction(known, replace(at, change=MILLION), at.bytes) for known in (None, batch)]
    assert extra == [
        pytest.approx(COMPACTION_BYTE_SECONDS * 50 * MILLION),
        pytest.approx(COMPACTION_BYTE_SECONDS * 50_000, rel=0.01),
    ]
    assert estimate_compaction(batch, at, at.bytes) == 0.0


def test_one_cold_run_speaks_for_the_machine_not_for_its_way() -> None:
    cold = ran("batch", 10, change=MILLION)
    assert way(20 * MILLION, 10 * MILLION, batch=cold) == way(20 * MILLION, 10 * MILLION) == "batch"


def test_several_runs_of_a_way_speak_for_it() -> None:
    slow, quick = ran("incremental", 9, runs=5), ran("batch", 0.2, runs=5)
    assert way(MILLION, 1_000) == "incremental"
    assert way(MILLION, 1_000, incremental=slow, batch=quick) == "batch"


def because(*readings: ChannelReading, only_batch: str | None = None) -> RefreshChoice:
    return choose_mode(readings, {}, only_batch=only_batch)


def test_what_stands_in_the_way_is_named() -> None:
    never = because(ChannelReading("clicks", 5, 5, consumed=False))
    assert (never.mode, "never consumed" in never.reason) == ("batch", True)
    replaced = because(ChannelReading("clicks", 5, 5, replaced=True, append_only=True))
    assert (replaced.mode, replaced.reason) == ("batch", "the content of clicks was replaced")
    assert because(only_batch="rand() differs each time").reason == "rand() differs each time"


def test_the_users_word_decides() -> None:
    reading = ChannelReading("clicks", MILLION, MILLION)
    assert choose_mode([reading], {}, declared="incremental_strict").mode == "incremental"
    assert choose_mode([ChannelReading("clicks", MILLION, 1)], {}, declared="batch").mode == "batch"


def test_state_that_would_not_be_used_is_not_made() -> None:
    large = [ChannelReading("clicks", 20 * MILLION, 10 * MILLION)]
    assert choose_mode(large, {}, state=StateStatus.NONE).mode == "batch"
    assert choose_mode(large, {}, state=StateStatus.KEPT).mode == "recompute"
    assert choose_mode(large, {}, state=StateStatus.DROPPED).mode == "recompute"


def test_state_is_made_again_when_changes_are_small_again() -> None:
    small = choose_mode([ChannelReading("clicks", 10 * MILLION, 5_000)], {}, state=StateStatus.DROPPED)
    assert small.mode == "batch"
    assert small.reason == "its state was dropped by the last recomputation"


def test_state_of_a_small_table_stays() -> None:
    """What it costs to keep is less than what it would cost to make again."""
    assert choose_mode([ChannelReading("clicks", 100, 60)], {}, state=StateStatus.KEPT).mode != "recompute"
