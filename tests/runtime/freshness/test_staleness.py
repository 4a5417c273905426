"""`runtime.staleness` on histories in whole seconds, and `runtime.history`, which reads them."""

from __future__ import annotations

import pytest
from tests.catalog.driven import driver
from tests.catalog.driver import Driver

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


def reach(at: float, **newest: float) -> VisibleProvenance:
    return VisibleProvenance(_at(at), {(name,): _at(version) for name, version in newest.items()})


def _at(seconds: float) -> Version:
    return int(seconds * S)


def arrivals(**seconds: list[float]) -> dict[str, list[Version]]:
    return {name: [_at(s) for s in found] for name, found in seconds.items()}


ONE = StalenessHistory(arrivals(a=[10, 20, 40]), {"t": [reach(12, a=10), reach(30, a=20)]})


@pytest.mark.parametrize(
    ("moment", "staleness", "age"),
    [(11, None, None), (12, 0, 2), (19, 0, 9), (25, 5, 15), (30, 0, 10), (39, 0, 19), (45, 5, 25)],
)
def test_it_grows_from_when_something_newer_came(moment: float, staleness: float | None, age: float | None) -> None:
    assert measure_staleness(ONE, "t", StalenessMeasure.STALENESS, moment) == staleness
    assert measure_staleness(ONE, "t", StalenessMeasure.AGE, moment) == age


def test_the_curve_shows_the_moment_before_a_jump_and_after() -> None:
    (curve,) = compute_curves(ONE, StalenessMeasure.STALENESS, since=15, now=50)
    assert curve.table == "t"
    assert curve.points == (
        *((15.0, 0.0), (15.0, 0.0), (20.0, 0.0), (20.0, 0.0)),
        *((30.0, 10.0), (30.0, 0.0), (40.0, 0.0), (40.0, 0.0), (50.0, 10.0), (50.0, 10.0)),
    )


def test_a_curve_begins_when_its_table_does() -> None:
    (curve,) = compute_curves(ONE, StalenessMeasure.AGE, since=0, now=20)
    assert curve.points[0] == (12.0, 2.0)


def test_of_several_pathways_the_worst_counts() -> None:
    both = StalenessHistory(arrivals(a=[1, 10], b=[2, 30]), {"t": [reach(5, a=1, b=2)]})
    assert measure_staleness(both, "t", StalenessMeasure.STALENESS, 40) == 30
    assert measure_staleness(both, "t", StalenessMeasure.AGE, 40) == 39


def test_a_version_that_arrives_later_than_asked_is_not_missed_yet() -> None:
    assert measure_staleness(ONE, "t", StalenessMeasure.STALENESS, 19.5) == 0


def test_a_table_that_reflects_nothing_has_no_curve() -> None:
    empty = StalenessHistory(arrivals(a=[1]), {"t": [], "u": [VisibleProvenance(_at(2), {})]})
    assert compute_curves(empty, StalenessMeasure.STALENESS, 0, 10) == ()
    assert measure_staleness(empty, "u", StalenessMeasure.AGE, 10) is None
    assert empty.find_start() == 2.0


def test_the_sum_is_that_of_all_tables_at_every_moment() -> None:
    two = StalenessHistory(ONE.arrivals, {"t": ONE.provenance["t"], "u": [reach(14, a=10)]})
    drawn = compute_curves(two, StalenessMeasure.STALENESS, since=15, now=50)
    summed = sum_curves(drawn)
    assert (30.0, 20.0) in summed.points
    assert (30.0, 10.0) in summed.points
    assert summed.points[-1] == (50.0, 40.0)
    assert summed.integral == sum(c.integral for c in drawn)
    assert sum_curves(drawn, {"t": 3.0, "u": 0.5}).integral == 3 * drawn[0].integral + 0.5 * drawn[1].integral


def test_the_sum_of_nothing_is_nothing() -> None:
    assert sum_curves(()) == StalenessCurve("all tables", ())


def test_what_tables_reached_is_read_from_events_and_blocks(driver: Driver) -> None:
    driver.insert("a")
    driver.clock.now += 5
    driver.run_flow()
    driver.clock.now += 5
    driver.insert("a")
    found = read_history(driver.catalog, read_status(driver.catalog), driver.catalog.list_events(limit=1000))
    assert [len(found.arrivals[name]) for name in ("a", "b")] == [2, 0]
    (only,) = found.provenance["d"]
    assert only.visible // S == 1_005
    assert set(only.newest) == {A, B}
