"""Alarms about freshness targets: when one is missed, and when it is met again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.runtime.mill import Mill

import tidemill as tm
from tidemill.model.notice import AlarmKind, AlarmReading
from tidemill.planner.catalog_state import TargetStatus
from tidemill.publish.notify import Notifier, build_receivers
from tidemill.runtime.inspect.status import TARGET_SLACK_SECONDS, read_target_alarm, read_target_alarms
from tidemill.runtime.runs.requests import request_flow_run

LAG = 60.0


@pytest.fixture
def mill(tmp_path: Path) -> Iterator[Mill]:
    wf = tm.Workflow("shop")
    wf.input("orders", "id bigint, city string")
    wf.table("cities", "city string, n bigint")
    wf.sql("cities", "SELECT city, count(id) AS n FROM orders GROUP BY city", target_lag=LAG)
    wf.table("all_orders", "id bigint")
    wf.sql("all_orders", "SELECT id FROM orders")
    mill = Mill(wf.build_spec(), tmp_path)
    yield mill
    mill.close()


def test_a_missed_target_is_reported_once_and_when_it_is_met_again(
    mill: Mill, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "tidemill.notices")
    notify = Notifier(mill.catalog.notices, build_receivers([]))
    notify()

    def check_after(seconds: float) -> None:
        mill.now += seconds
        mill.catalog.alarms.update(AlarmKind.TARGET_MISSED, read_target_alarms(mill.catalog))
        notify()

    mill.insert("orders", "1,Ghent")
    mill.attempt(request_flow_run(mill.catalog, "cities"))
    check_after(1000)  # it reflects all data
    mill.insert("orders", "2,Oslo")
    for seconds in (LAG, TARGET_SLACK_SECONDS - 1, 36, 100):
        check_after(seconds)
    mill.attempt(request_flow_run(mill.catalog, "cities"))
    check_after(0)
    check_after(10)
    assert [(r.levelname, r.getMessage()) for r in caplog.records] == [
        ("WARNING", "cities misses its freshness target: it is staler than 1 min by 40 s, on the pathway orders"),
        ("INFO", "cities meets its freshness target again, after 1 min"),
    ]


def test_only_channels_with_a_target_are_read(mill: Mill) -> None:
    assert read_target_alarms(mill.catalog) == {"cities": AlarmReading(False)}


def test_an_inconsistent_table_misses_its_target_at_once() -> None:
    status = TargetStatus({("a",): 1.0}, {("a",): 60.0}, inconsistency=9.0, consistency=5.0)
    assert read_target_alarm(status) == AlarmReading(True, {"pathway": None, "inconsistency": 9.0, "consistency": 5.0})


def test_of_several_pathways_the_latest_is_reported() -> None:
    status = TargetStatus({("a",): 70.0, ("b",): 200.0}, {("a",): 60.0, ("b",): 100.0}, None, None)
    assert read_target_alarm(status).detail == {"pathway": ["b"], "staleness": 200.0, "target_lag": 100.0}
