"""`runtime.freshness.staleness` on histories in whole seconds, and `visibility`, which reads them."""

from __future__ import annotations

import pytest
from tests.catalog.driver import Driver
from tests.catalog.driver_fixture import driver

from tidemill.model.time import Version
from tidemill.runtime.freshness.staleness import (
    StalenessCurve,
    StalenessHistory,
    StalenessMeasure,
    VisibleProvenance,
    compute_curves,
    measure_staleness,
    sum_curves,
)
from tidemill.runtime.freshness.visibility import read_history
from tidemill.runtime.inspect.status import read_status

__all__ = ["driver"]

S = 1_000_000
A, B = ("a",), ("b",)


def build_provenance(at: float, **newest: float) -> VisibleProvenance:
    return VisibleProvenance(_to_version(at), {(name,): _to_version(version) for name, version in newest.items()})


def _to_version(seconds: float) -> Version:
    return int(seconds * S)


def build_arrivals(**seconds: list[float]) -> dict[str, list[Version]]:
    return {name: [_to_version(s) for s in times] for name, times in seconds.items()}


ONE = StalenessHistory(build_arrivals(a=[10, 20, 40]), {"t": [build_provenance(12, a=10), build_provenance(30, a=20)]})


@pytest.mark.parametrize(
    ("time", "staleness", "age"),
    [(11, None, None), (12, 0, 2), (19, 0, 9), (25, 5, 15), (30, 0, 10), (39, 0, 19), (45, 5, 25)],
)
def test_staleness_grows_from_the_first_unread_version(time: float, staleness: float | None, age: float | None) -> None:
    assert measure_staleness(ONE, "t", StalenessMeasure.STALENESS, time) == staleness
    assert measure_staleness(ONE, "t", StalenessMeasure.AGE, time) == age


def test_a_curve_has_points_before_and_after_a_jump() -> None:
    (curve,) = compute_curves(ONE, StalenessMeasure.STALENESS, since=15, now=50)
    assert curve.table == "t"
    assert curve.points == (
        *((15.0, 0.0), (15.0, 0.0), (20.0, 0.0), (20.0, 0.0)),
        *((30.0, 10.0), (30.0, 0.0), (40.0, 0.0), (40.0, 0.0), (50.0, 10.0), (50.0, 10.0)),
    )


def test_a_curve_begins_when_its_table_does() -> None:
    (curve,) = compute_curves(ONE, StalenessMeasure.AGE, since=0, now=20)
    assert curve.points[0] == (12.0, 2.0)


def test_the_stalest_pathway_counts() -> None:
    both = StalenessHistory(build_arrivals(a=[1, 10], b=[2, 30]), {"t": [build_provenance(5, a=1, b=2)]})
    assert measure_staleness(both, "t", StalenessMeasure.STALENESS, 40) == 30
    assert measure_staleness(both, "t", StalenessMeasure.AGE, 40) == 39


def test_a_later_version_does_not_count_yet() -> None:
    assert measure_staleness(ONE, "t", StalenessMeasure.STALENESS, 19.5) == 0


def test_a_table_that_reflects_nothing_has_no_curve() -> None:
    empty = StalenessHistory(build_arrivals(a=[1]), {"t": [], "u": [VisibleProvenance(_to_version(2), {})]})
    assert compute_curves(empty, StalenessMeasure.STALENESS, 0, 10) == ()
    assert measure_staleness(empty, "u", StalenessMeasure.AGE, 10) is None
    assert empty.find_start() == 2.0


def test_the_sum_covers_all_tables_at_every_time() -> None:
    two = StalenessHistory(ONE.arrivals, {"t": ONE.provenance["t"], "u": [build_provenance(14, a=10)]})
    curves = compute_curves(two, StalenessMeasure.STALENESS, since=15, now=50)
    total = sum_curves(curves)
    assert (30.0, 20.0) in total.points
    assert (30.0, 10.0) in total.points
    assert total.points[-1] == (50.0, 40.0)
    assert total.integral == sum(c.integral for c in curves)
    assert sum_curves(curves, {"t": 3.0, "u": 0.5}).integral == 3 * curves[0].integral + 0.5 * curves[1].integral


def test_the_sum_of_no_curves_is_empty() -> None:
    assert sum_curves(()) == StalenessCurve("all tables", ())


def test_the_history_is_read_from_events_and_blocks(driver: Driver) -> None:
    driver.insert("a")
    driver.clock.now += 5
    driver.run_flow()
    driver.clock.now += 5
    driver.insert("a")
    history = read_history(driver.catalog, read_status(driver.catalog), driver.catalog.events.list(limit=1000))
    assert [len(history.arrivals[name]) for name in ("a", "b")] == [2, 0]
    (only,) = history.provenance["d"]
    assert only.visible // S == 1_005
    assert set(only.newest) == {A, B}
