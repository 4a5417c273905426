"""Replaying what was recorded under other policies."""

from __future__ import annotations

import pytest

from tidemill.scheduler.job import Batch, UpdateCost
from tidemill.scheduler.policies import POLICIES
from tidemill.sim.staleness.replay import RecordedTable, fit_cost, replay_policies
from tidemill.sim.staleness.workload import SimulationConfig

EPOCH = 1_700_000_000.0


def every(period: float, count: int) -> list[Batch]:
    return [(EPOCH + i * period, EPOCH + i * period) for i in range(count)]


@pytest.mark.parametrize(
    ("runs", "cost"),
    [
        ([(10.0, 3.0), (20.0, 5.0), (40.0, 9.0)], UpdateCost(1.0, 0.2)),
        ([(10.0, 3.0), (10.0, 5.0)], UpdateCost(4.0, 0.0)),
        ([(10.0, 5.0), (20.0, 3.0)], UpdateCost(4.0, 0.0)),  # never less for more
        ([], UpdateCost(1e-6, 0.0)),
    ],
)
def test_costs_are_fitted_to_runs(runs: list[tuple[float, float]], cost: UpdateCost) -> None:
    found = fit_cost(runs)
    assert (found.start, found.rate) == pytest.approx((cost.start, cost.rate))


def test_costs_that_would_start_below_nothing_go_through_nothing() -> None:
    found = fit_cost([(1.0, 1.0), (2.0, 3.0)])
    assert found.start == pytest.approx(1e-6)
    assert found.rate == pytest.approx(7 / 5)


def test_who_heeds_priorities_would_have_done_better() -> None:
    recorded = {f"low{i}": RecordedTable(every(10.0, 40), [(10.0, 3.0)]) for i in range(3)}
    recorded["most"] = RecordedTable(every(10.0, 40), [(10.0, 1.0)], priority=100.0)
    found = replay_policies(
        recorded, 1, {"as it was": SimulationConfig("first-come"), "better": SimulationConfig("max-benefit")}
    )
    assert [replay.name for replay in found] == ["better", "as it was"]
    assert found[0].staleness < found[1].staleness
    assert found[0].tables["most"] < found[1].tables["most"]


def test_a_lone_table_is_replayed_as_it_was() -> None:
    """Batches every 10, runs of 2 and 4 in turns: the area of each is that of 10 to 12 or 14 and 2 or 4 to 10."""
    recorded = {"t": RecordedTable(every(10.0, 4), [(10.0, 2.0), (10.0, 4.0)])}
    (found,) = replay_policies(recorded, 1, {"only": SimulationConfig()})
    area = (10 + 12) / 2 * 2 + (2 + 14) / 2 * 12 + (4 + 12) / 2 * 8 + (2 + 14) / 2 * 12
    assert found.tables["t"] == pytest.approx(area / 34)


def test_derived_tables_follow() -> None:
    recorded = {
        "base": RecordedTable(every(10.0, 20), [(10.0, 1.0)]),
        "view": RecordedTable((), [(10.0, 2.0)], priority=5.0, parents=("base",)),
    }
    (found,) = replay_policies(recorded, 1, {"only": SimulationConfig()})
    assert found.tables["view"] > found.tables["base"]
    assert found.staleness == pytest.approx(found.tables["base"] + 5 * found.tables["view"])


def test_every_policy_is_compared_unless_one_says_which() -> None:
    recorded = {f"t{i}": RecordedTable(every(10.0, 20), [(10.0, 4.0)], priority=float(i)) for i in range(1, 5)}
    found = replay_policies(recorded, 1)
    assert len(found) == 2 * len(POLICIES)
    assert [r.staleness for r in found] == sorted(r.staleness for r in found)


def test_windows_add_up() -> None:
    recorded = {f"t{i}": RecordedTable(every(10.0, 20), [(10.0, 4.0)], priority=float(i)) for i in range(1, 5)}
    begin, middle, end = EPOCH, EPOCH + 83.0, EPOCH + 150.0
    whole, first, second = (
        replay_policies(recorded, 1, {"only": SimulationConfig()}, window)[0].staleness
        for window in ((begin, end), (begin, middle), (middle, end))
    )
    assert whole * 150 == pytest.approx(first * 83 + second * 67)
    assert second > first  # there is more to do than the track bears
