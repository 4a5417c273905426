"""The decision for a declared table that must be fresh now: the planner's choice among its refresh modes."""

from __future__ import annotations

from dataclasses import replace

import pytest

import tidemill as tm
from tidemill.model.task import Task
from tidemill.planner.cost import SPREAD_FACTOR, SPREAD_ROWS, CostModel, ScanVolume
from tidemill.planner.graph import BlockShape, DataSize
from tidemill.planner.refresh_mode import (
    COMPACTION_BYTE_SECONDS,
    MAJOR_COMPACTION_SHARE,
    PRIORS,
    ChannelReading,
    RefreshChoice,
    StateStatus,
    TableState,
    build_prior,
    estimate_compaction,
)
from tidemill.planner.table_decision import TableDecision, decide_table
from tidemill.retention.compaction import LIMITS

MILLION = 1_000_000


def build_task(query: str, refresh: str = "auto") -> Task:
    wf = tm.Workflow("w")
    wf.input("clicks", "user bigint, site string")
    wf.input("sites", "site string, name string", key="site")
    wf.table("result", "site string")
    wf.sql("result", query, refresh=refresh)
    (task,) = wf.build_spec().list_tasks()
    return task


STATELESS = "SELECT site FROM clicks WHERE user > 0"
GROUPED = "SELECT DISTINCT site FROM clicks"
JOINED = "SELECT c.site FROM clicks c JOIN sites s ON c.site = s.site"


def decide(
    *readings: ChannelReading,
    query: str = STATELESS,
    refresh: str = "auto",
    state: StateStatus = StateStatus.NONE,
    disabled: str | None = None,
    requested: str | None = None,
    **models: CostModel,
) -> TableDecision:
    table = TableState(readings, state, disabled)
    decision = decide_table(build_task(query, refresh), table, models, requested)
    assert decision is not None
    return decision


def choose(content: int, change: int, **models: CostModel) -> str:
    return decide(ChannelReading("clicks", content, change), **models).choice.mode


def estimate_incremental(reading: ChannelReading) -> float:
    return decide(reading).choice.options[-1].seconds or 0.0


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


def test_a_change_that_is_spread_over_executors_costs_more() -> None:
    seconds = [
        estimate_incremental(ChannelReading("clicks", 9 * SPREAD_ROWS, n)) for n in (SPREAD_ROWS, SPREAD_ROWS + 1)
    ]
    terms = PRIORS["incremental"]
    assert seconds[1] - seconds[0] == pytest.approx((SPREAD_FACTOR - 1) * terms.change * SPREAD_ROWS, rel=0.001)


def test_the_compaction_after_a_large_change_is_part_of_the_cost() -> None:
    assert pytest.approx(2 * MAJOR_COMPACTION_SHARE / (1 - MAJOR_COMPACTION_SHARE)) == LIMITS.share, (
        "signed rows, relative to the unchanged rows of the base"
    )
    change = int(MAJOR_COMPACTION_SHARE * MILLION)
    read = [ChannelReading("clicks", MILLION, n, bytes=50 * MILLION) for n in (change, change + 1)]
    less, more = map(estimate_incremental, read)
    row_cost = PRIORS["incremental"].change
    assert more - less == pytest.approx(COMPACTION_BYTE_SECONDS * 50 * MILLION + row_cost, rel=0.01)


def test_the_compaction_cost_depends_on_the_result_and_not_on_the_inputs() -> None:
    at = ScanVolume(0, MILLION, 50 * MILLION)
    batch = build_prior("batch", 1).add_run(at, 1.0, [DataSize(1_000, 50_000)])  # a thousandth of the rows
    models = (build_prior("batch", 1), batch)
    extra = [estimate_compaction(model, replace(at, change=MILLION), at.bytes) for model in models]
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


def explain_choice(*readings: ChannelReading) -> RefreshChoice:
    return decide(*readings).choice


def test_the_reason_against_incremental_refresh_is_named() -> None:
    never = explain_choice(ChannelReading("clicks", 5, 5, consumed=False))
    assert (never.mode, "never consumed" in never.reason) == ("batch", True)
    assert (never.options[-1].seconds, never.options[-1].reason) == (None, never.reason)
    replaced = explain_choice(ChannelReading("clicks", 5, 5, replaced=True, append_only=True))
    assert (replaced.mode, replaced.reason) == ("batch", "the content of clicks was replaced")
    disabled = decide(ChannelReading("clicks", MILLION, 5), disabled="by the settings").choice
    assert (disabled.mode, disabled.reason) == ("batch", "by the settings")


def test_a_declared_mode_decides() -> None:
    large, small = ChannelReading("clicks", MILLION, MILLION), ChannelReading("clicks", MILLION, 1)
    assert decide(large, refresh="incremental_strict").choice.mode == "incremental"
    batch = decide(small, refresh="batch").choice
    assert (batch.mode, batch.reason) == ("batch", "refresh is 'batch'")
    assert all(option.seconds is not None for option in batch.options)


def test_a_requested_variant_decides_if_it_is_possible() -> None:
    readings = (ChannelReading("clicks", MILLION, 1), ChannelReading("sites", 10, 0))
    requested = decide(*readings, query=JOINED, requested="incremental:clicks").choice
    assert (requested.mode, requested.reason) == (
        "incremental:clicks", "variant 'incremental:clicks' was requested",
    )  # fmt: skip
    never = TableState((ChannelReading("clicks", 5, 5, consumed=False),))
    assert decide_table(build_task(STATELESS), never, {}, "incremental") is None


def test_unused_state_is_not_written() -> None:
    large = ChannelReading("clicks", 20 * MILLION, 10 * MILLION)
    assert decide(large).choice.mode == "batch"
    for state in (StateStatus.KEPT, StateStatus.DROPPED):
        assert decide(large, query=GROUPED, state=state).choice.mode == "recompute"


def test_dropped_state_is_rebuilt_when_changes_become_small() -> None:
    small = decide(ChannelReading("clicks", 10 * MILLION, 5_000), query=GROUPED, state=StateStatus.DROPPED).choice
    assert small.mode == "batch"
    assert small.reason == "its state was dropped by the last recomputation"


def test_the_state_of_a_small_table_is_retained() -> None:
    """Maintaining it costs less than rebuilding it."""
    small = ChannelReading("clicks", 100, 60)
    assert decide(small, query=GROUPED, state=StateStatus.KEPT).choice.mode != "recompute"


def test_a_run_without_new_data_reads_an_empty_change() -> None:
    decision = decide(ChannelReading("clicks", 100, 0), ChannelReading("sites", 10, 0), query=JOINED)
    assert (decision.choice.mode, decision.choice.reason) == ("incremental", "0 of 110 rows changed")
    assert decision.result.source is not None


def test_the_result_of_a_decision_has_an_estimated_size() -> None:
    decision = decide(ChannelReading("clicks", MILLION, 1_000, bytes=10 * MILLION, change_bytes=10_000))
    assert (decision.result.shape, decision.result.size) == (BlockShape.MONOTONE, DataSize(1_000, 10_000))
    first = decide(ChannelReading("clicks", MILLION, MILLION, 10 * MILLION, 10 * MILLION, consumed=False))
    assert (first.result.shape, first.result.size) == (BlockShape.BASE, DataSize(MILLION, 10 * MILLION))
