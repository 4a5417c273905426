"""Alarms: their beginning and their end are recorded once, whichever server observes them."""

from __future__ import annotations

from collections.abc import Callable

from tests.catalog.driver import Driver
from tests.contract.test_catalog_races import run_concurrently

from tidemill.catalog import SqlCatalog
from tidemill.model.notice import AlarmKind, AlarmReading

MISSED = AlarmReading(True, {"pathway": ["a"], "staleness": 95.0, "target_lag": 60.0})
NEAR = AlarmReading(None)
MET = AlarmReading(False)


def update(driver: Driver, **readings: AlarmReading) -> None:
    driver.catalog.alarms.update(AlarmKind.TARGET_MISSED, readings)


def list_changes(driver: Driver) -> list[tuple[str, str]]:
    events = driver.catalog.events.list(limit=1000)
    return [(e.kind, e.subject) for e in events if e.kind.startswith(("target.", "storage."))]


def test_each_change_is_one_event(driver: Driver) -> None:
    for readings in ({"d": MISSED}, {"d": MISSED}, {"d": NEAR}, {"d": MET}, {"d": MET}, {"d": NEAR}, {"d": MISSED}):
        update(driver, **readings)
    assert list_changes(driver) == [("target.missed", "d"), ("target.met", "d"), ("target.missed", "d")]


def test_an_alarm_ends_with_the_time_of_its_beginning(driver: Driver) -> None:
    update(driver, d=MISSED)
    driver.clock.now += 50
    update(driver, d=MET)
    began, ended = driver.catalog.events.list_newest(2)
    assert began.detail == dict(MISSED.detail)
    assert ended.detail == {"since": began.at}


def test_the_alarm_of_a_removed_target_ends_without_an_event(driver: Driver) -> None:
    update(driver, d=MISSED)
    update(driver)
    assert list_changes(driver) == [("target.missed", "d")]
    update(driver, d=MISSED)
    assert list_changes(driver) == [("target.missed", "d")] * 2


def test_kinds_of_alarms_are_independent(driver: Driver) -> None:
    usage = AlarmReading(True, {"used_bytes": 2})
    driver.catalog.alarms.update(AlarmKind.STORAGE_EXCEEDED, {"storage": usage})
    update(driver, d=MISSED)
    driver.catalog.alarms.update(AlarmKind.STORAGE_EXCEEDED, {"storage": MET})
    assert list_changes(driver) == [
        ("storage.exceeded", "storage"),
        ("target.missed", "d"),
        ("storage.reduced", "storage"),
    ]


def test_a_restarted_server_repeats_no_event(driver: Driver, open_another: Callable[[], SqlCatalog]) -> None:
    update(driver, d=MISSED)
    update(Driver(open_another(), driver.clock), d=MISSED)
    assert list_changes(driver) == [("target.missed", "d")]


def test_several_servers_record_one_event(driver: Driver, open_another: Callable[[], SqlCatalog]) -> None:
    servers = [Driver(open_another(), driver.clock) for _ in range(4)]
    for reading in (MISSED, MET) * 10:
        run_concurrently([lambda s=s: update(s, d=reading) for s in servers])  # noqa: B023
    assert list_changes(driver) == [("target.missed", "d"), ("target.met", "d")] * 10
