"""The choice of a declared table's refresh mode."""

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


def choose(content: int, change: int, **models: CostModel) -> str:
    return choose_mode([ChannelReading("clicks", content, change)], models).mode


def fit_model(name: str, times: float, runs: int = 1, content: int = MILLION, change: int = 1_000) -> CostModel:
    """A mode whose runs took a multiple of their estimate."""
    model, volume = build_prior(name, 1), ScanVolume(change if name == "incremental" else 0, content)
    for _ in range(runs):
        model = model.add_run(volume, times * PRIORS[name].compute_cost(volume), [DataSize(1, 1)])
    return model


@pytest.mark.parametrize(
    ("share", "expected"), [(0.001, "incremental"), (0.1, "incremental"), (0.5, "batch"), (1.0, "batch")]
)
def test_a_small_change_is_incremental_and_a_large_one_a_batch(share: float, expected: str) -> None:
    before = 20 * MILLION
    change = int(before * share)
    assert choose(before + change, change) == expected


def test_more_rows_than_can_be_collected_cost_more() -> None:
    seconds = [
        choose_mode([ChannelReading("clicks", 9 * MAX_COLLECTED_ROWS, n)], {}).options[-1].seconds or 0.0
        for n in (MAX_COLLECTED_ROWS, MAX_COLLECTED_ROWS + 1)
    ]
    terms = PRIORS["incremental"]
    assert seconds[1] - seconds[0] == pytest.approx((SPREAD_FACTOR - 1) * terms.change * MAX_COLLECTED_ROWS, rel=0.001)


def test_the_compaction_after_a_large_change_is_part_of_the_cost() -> None:
    assert pytest.approx(2 * MAJOR_COMPACTION_SHARE / (1 - MAJOR_COMPACTION_SHARE)) == LIMITS.share, (
        "signed rows, relative to the unchanged rows of the base"
    )
    change = int(MAJOR_COMPACTION_SHARE * MILLION)
    read = [ChannelReading("c", MILLION, n, bytes=50 * MILLION) for n in (change, change + 1)]
    less, more = (choose_mode([reading], {}).options[-1].seconds or 0.0 for reading in read)
    row_cost = PRIORS["incremental"].change
    assert more - less == pytest.approx(COMPACTION_BYTE_SECONDS * 50 * MILLION + row_cost, rel=0.01)


def test_the_compaction_cost_depends_on_the_result_and_not_on_the_inputs() -> None:
    at = ScanVolume(0, MILLION, 50 * MILLION)
    batch = build_prior("batch", 1).add_run(at, 1.0, [DataSize(1_000, 50_000)])  # a thousandth of the rows
    extra = [estimate_compaction(model, replace(at, change=MILLION), at.bytes) for model in (None, batch)]
    assert extra == [
        pytest.approx(COMPACTION_BYTE_SECONDS * 50 * MILLION),
        pytest.approx(COMPACTION_BYTE_SECONDS * 50_000, rel=0.01),
    ]
    assert estimate_compaction(batch, at, at.bytes) == 0.0


def test_one_cold_run_does_not_change_the_mode() -> None:
    cold = fit_model("batch", 10, change=MILLION)
    assert choose(20 * MILLION, 10 * MILLION, batch=cold) == choose(20 * MILLION, 10 * MILLION) == "batch"


def test_several_runs_of_a_mode_change_the_choice() -> None:
    slow, quick = fit_model("incremental", 9, runs=5), fit_model("batch", 0.2, runs=5)
    assert choose(MILLION, 1_000) == "incremental"
    assert choose(MILLION, 1_000, incremental=slow, batch=quick) == "batch"


def explain_choice(*readings: ChannelReading, only_batch: str | None = None) -> RefreshChoice:
    return choose_mode(readings, {}, only_batch=only_batch)


def test_the_reason_against_incremental_refresh_is_named() -> None:
    never = explain_choice(ChannelReading("clicks", 5, 5, consumed=False))
    assert (never.mode, "never consumed" in never.reason) == ("batch", True)
    replaced = explain_choice(ChannelReading("clicks", 5, 5, replaced=True, append_only=True))
    assert (replaced.mode, replaced.reason) == ("batch", "the content of clicks was replaced")
    assert explain_choice(only_batch="rand() differs each time").reason == "rand() differs each time"


def test_a_declared_mode_decides() -> None:
    reading = ChannelReading("clicks", MILLION, MILLION)
    assert choose_mode([reading], {}, declared="incremental_strict").mode == "incremental"
    assert choose_mode([ChannelReading("clicks", MILLION, 1)], {}, declared="batch").mode == "batch"


def test_unused_state_is_not_written() -> None:
    large = [ChannelReading("clicks", 20 * MILLION, 10 * MILLION)]
    assert choose_mode(large, {}, state=StateStatus.NONE).mode == "batch"
    assert choose_mode(large, {}, state=StateStatus.KEPT).mode == "recompute"
    assert choose_mode(large, {}, state=StateStatus.DROPPED).mode == "recompute"


def test_dropped_state_is_rebuilt_when_changes_become_small() -> None:
    small = choose_mode([ChannelReading("clicks", 10 * MILLION, 5_000)], {}, state=StateStatus.DROPPED)
    assert small.mode == "batch"
    assert small.reason == "its state was dropped by the last recomputation"


def test_the_state_of_a_small_table_is_retained() -> None:
    """Maintaining it costs less than rebuilding it."""
    assert choose_mode([ChannelReading("clicks", 100, 60)], {}, state=StateStatus.KEPT).mode != "recompute"
