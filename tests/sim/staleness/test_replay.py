"""Replays of recorded runs under other policies."""

from __future__ import annotations

import pytest

from tidemill.scheduler.job import Batch, UpdateCost
from tidemill.scheduler.policies import POLICIES
from tidemill.sim.staleness.replay import RecordedTable, fit_cost, replay_policies
from tidemill.sim.staleness.workload import SimulationConfig

EPOCH = 1_700_000_000.0


def build_batches(period: float, count: int) -> list[Batch]:
    return [(EPOCH + i * period, EPOCH + i * period) for i in range(count)]


@pytest.mark.parametrize(
    ("runs", "cost"),
    [
        ([(10.0, 3.0), (20.0, 5.0), (40.0, 9.0)], UpdateCost(1.0, 0.2)),
        ([(10.0, 3.0), (10.0, 5.0)], UpdateCost(4.0, 0.0)),
        ([(10.0, 5.0), (20.0, 3.0)], UpdateCost(4.0, 0.0)),  # costs never decrease with the amount of data
        ([], UpdateCost(1e-6, 0.0)),
    ],
)
def test_costs_are_fitted_to_runs(runs: list[tuple[float, float]], cost: UpdateCost) -> None:
    fitted = fit_cost(runs)
    assert (fitted.start, fitted.rate) == pytest.approx((cost.start, cost.rate))


def test_a_negative_start_cost_is_fitted_through_zero() -> None:
    fitted = fit_cost([(1.0, 1.0), (2.0, 3.0)])
    assert fitted.start == pytest.approx(1e-6)
    assert fitted.rate == pytest.approx(7 / 5)


def test_a_policy_with_priorities_reduces_staleness() -> None:
    recorded = {f"low{i}": RecordedTable(build_batches(10.0, 40), [(10.0, 3.0)]) for i in range(3)}
    recorded["most"] = RecordedTable(build_batches(10.0, 40), [(10.0, 1.0)], priority=100.0)
    replays = replay_policies(
        recorded, 1, {"as it was": SimulationConfig("first-come"), "better": SimulationConfig("max-benefit")}
    )
    assert [replay.name for replay in replays] == ["better", "as it was"]
    assert replays[0].staleness < replays[1].staleness
    assert replays[0].tables["most"] < replays[1].tables["most"]


def test_a_single_table_is_replayed_as_recorded() -> None:
    """Batches every 10 s, runs of 2 s and 4 s alternately: the areas are from 10 to 12 or 14, and from 2 or 4 to 10."""
    recorded = {"t": RecordedTable(build_batches(10.0, 4), [(10.0, 2.0), (10.0, 4.0)])}
    (replay,) = replay_policies(recorded, 1, {"only": SimulationConfig()})
    area = (10 + 12) / 2 * 2 + (2 + 14) / 2 * 12 + (4 + 12) / 2 * 8 + (2 + 14) / 2 * 12
    assert replay.tables["t"] == pytest.approx(area / 34)


def test_derived_tables_are_replayed_after_their_parents() -> None:
    recorded = {
        "base": RecordedTable(build_batches(10.0, 20), [(10.0, 1.0)]),
        "view": RecordedTable((), [(10.0, 2.0)], priority=5.0, parents=("base",)),
    }
    (replay,) = replay_policies(recorded, 1, {"only": SimulationConfig()})
    assert replay.tables["view"] > replay.tables["base"]
    assert replay.staleness == pytest.approx(replay.tables["base"] + 5 * replay.tables["view"])


def test_all_policies_are_compared_by_default() -> None:
    recorded = {f"t{i}": RecordedTable(build_batches(10.0, 20), [(10.0, 4.0)], priority=float(i)) for i in range(1, 5)}
    replays = replay_policies(recorded, 1)
    assert len(replays) == 2 * len(POLICIES)
    assert [r.staleness for r in replays] == sorted(r.staleness for r in replays)


def test_the_staleness_of_windows_adds_up() -> None:
    recorded = {f"t{i}": RecordedTable(build_batches(10.0, 20), [(10.0, 4.0)], priority=float(i)) for i in range(1, 5)}
    begin, middle, end = EPOCH, EPOCH + 83.0, EPOCH + 150.0
    whole, first, second = (
        replay_policies(recorded, 1, {"only": SimulationConfig()}, window)[0].staleness
        for window in ((begin, end), (begin, middle), (middle, end))
    )
    assert whole * 150 == pytest.approx(first * 83 + second * 67)
    assert second > first  # the track is overloaded
