"""`status`: consumers that are behind, staleness and row counts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.runtime.mill import Mill

import tidemill as tm
from tidemill.model.channel import ChannelRole
from tidemill.model.run import RunState
from tidemill.runtime.freshness.staleness import StalenessMeasure, measure_staleness
from tidemill.runtime.freshness.visibility import EVENTS, read_history
from tidemill.runtime.inspect.status import ChannelStatus, read_status
from tidemill.runtime.maintenance.compaction import Compactor
from tidemill.runtime.runs.requests import request_flow_run


@pytest.fixture
def mill(tmp_path: Path) -> Iterator[Mill]:
    wf = tm.Workflow("search")
    wf.input("pages", "url string, site string", key="url")
    wf.input("clicks", "user bigint, site string")
    wf.table("scores", "site string, users bigint")
    wf.table("ranked", "url string, users bigint")
    wf.sql("scores", "SELECT site, count(user) AS users FROM clicks GROUP BY site")
    ranked = "SELECT p.url, s.users FROM pages p LEFT JOIN scores s ON p.site = s.site"
    wf.sql("ranked", ranked, target_lag=60)
    mill = Mill(wf.build_spec(), tmp_path)
    yield mill
    mill.close()


def read_channel_status(mill: Mill, name: str) -> ChannelStatus:
    return next(c for c in read_status(mill.catalog).channels if c.registered.channel.name == name)


def count_blocks_behind(mill: Mill) -> dict[tuple[str, str], int]:
    consumers = (c for status in read_status(mill.catalog).channels for c in status.consumers)
    return {
        (c.task, c.channel): c.behind
        for c in consumers
        if read_channel_status(mill, c.channel).registered.channel.role != ChannelRole.STATE
    }


def measure(mill: Mill, table: str) -> float | None:
    history = read_history(mill.catalog, read_status(mill.catalog), mill.catalog.events.list_newest(EVENTS))
    return measure_staleness(history, table, StalenessMeasure.STALENESS, mill.now)


def test_after_a_run_without_work_no_consumer_is_behind(mill: Mill) -> None:
    for n in range(3):
        mill.insert("clicks", f"{n},a")
        mill.insert("pages", f"{n},a")
    mill.attempt(request_flow_run(mill.catalog, "ranked"))
    assert set(count_blocks_behind(mill).values()) == {0}
    idle = mill.attempt(request_flow_run(mill.catalog, "ranked"))  # it finishes without reading
    assert (idle.state, mill.catalog.runs.list_reads(idle.id)) == (RunState.FINISHED, [])
    assert set(count_blocks_behind(mill).values()) == {0}
    mill.now += 1
    assert measure(mill, "ranked") == 0.0
    mill.insert("clicks", "9,a")
    mill.now += 5
    assert count_blocks_behind(mill) == {("scores", "clicks"): 1, ("ranked", "pages"): 0, ("ranked", "scores"): 0}
    assert measure(mill, "ranked") == pytest.approx(5, abs=0.1)


def test_arrivals_on_an_input_that_was_empty_are_unread(mill: Mill) -> None:
    """Its provenance has no pathway from an input that was empty."""
    mill.insert("pages", "x,a")
    for flow in ("scores", "ranked"):
        mill.executor.run_flow(mill.binding(flow), {})
    mill.now += 1
    assert measure(mill, "ranked") == 0.0
    mill.insert("clicks", "1,a")
    mill.now += 100
    assert count_blocks_behind(mill)["scores", "clicks"] == 1
    assert measure(mill, "ranked") == pytest.approx(100, abs=0.1)
    status = read_channel_status(mill, "ranked").target_status
    assert status is not None
    assert status.is_late
    assert status.staleness["clicks", "scores"] == pytest.approx(100, abs=0.1)


def test_rows_count_the_content_and_not_all_blocks(mill: Mill) -> None:
    mill.insert("clicks", "1,a", "2,a")
    mill.insert("clicks", "3,a")
    assert read_channel_status(mill, "clicks").rows == 3
    Compactor(mill.executor, {}).compact_major("clicks")  # a base next to the two deltas that it replaces
    status = read_channel_status(mill, "clicks")
    assert (status.rows, status.registered.rows) == (3, 6)
    mill.insert("clicks", "4,b")
    assert read_channel_status(mill, "clicks").rows == 4


def test_the_rows_of_upserts_are_unknown(mill: Mill) -> None:
    assert read_channel_status(mill, "pages").rows == 0
    mill.insert("pages", "x,a", "y,a")
    mill.insert("pages", "x,b")
    assert (read_channel_status(mill, "pages").rows, read_channel_status(mill, "pages").registered.rows) == (None, 3)
    Compactor(mill.executor, {}).compact_major("pages")
    assert read_channel_status(mill, "pages").rows == 2
