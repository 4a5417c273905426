"""What `status` says of who is behind, of staleness and of rows, against what is true."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.runtime.mill import Mill

import tidemill as tm
from tidemill.catalog.pagination import list_newest_events
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
    made = Mill(wf.declared(), tmp_path)
    yield made
    made.close()


def channel(mill: Mill, name: str) -> ChannelStatus:
    return next(c for c in read_status(mill.catalog).channels if c.registered.channel.name == name)


def behind(mill: Mill) -> dict[tuple[str, str], int]:
    found = (c for known in read_status(mill.catalog).channels for c in known.consumers)
    return {
        (c.task, c.channel): c.behind
        for c in found
        if channel(mill, c.channel).registered.channel.role != ChannelRole.STATE
    }


def staleness(mill: Mill, table: str) -> float | None:
    found = read_history(mill.catalog, read_status(mill.catalog), list_newest_events(mill.catalog, EVENTS))
    return measure_staleness(found, table, StalenessMeasure.STALENESS, mill.now)


def test_a_run_with_nothing_to_do_leaves_nobody_behind(mill: Mill) -> None:
    for n in range(3):
        mill.insert("clicks", f"{n},a")
        mill.insert("pages", f"{n},a")
    mill.keep(request_flow_run(mill.catalog, "ranked"))
    assert set(behind(mill).values()) == {0}
    idle = mill.keep(request_flow_run(mill.catalog, "ranked"))  # it finishes, and reads nothing
    assert (idle.state, mill.catalog.list_run_reads(idle.id)) == (RunState.FINISHED, [])
    assert set(behind(mill).values()) == {0}
    mill.now += 1
    assert staleness(mill, "ranked") == 0.0
    mill.insert("clicks", "9,a")
    mill.now += 5
    assert behind(mill) == {("scores", "clicks"): 1, ("ranked", "pages"): 0, ("ranked", "scores"): 0}
    assert staleness(mill, "ranked") == pytest.approx(5, abs=0.1)


def test_what_came_after_a_table_was_made_is_unread_since_then(mill: Mill) -> None:
    """Its provenance has no pathway from an input that was empty."""
    mill.insert("pages", "x,a")
    for flow in ("scores", "ranked"):
        mill.executor.run_flow(mill.binding(flow), {})
    mill.now += 1
    assert staleness(mill, "ranked") == 0.0
    mill.insert("clicks", "1,a")
    mill.now += 100
    assert behind(mill)["scores", "clicks"] == 1
    assert staleness(mill, "ranked") == pytest.approx(100, abs=0.1)
    kept = channel(mill, "ranked").target_status
    assert kept is not None
    assert kept.is_late
    assert kept.staleness["clicks", "scores"] == pytest.approx(100, abs=0.1)


def test_rows_are_those_of_the_content_and_not_of_all_blocks(mill: Mill) -> None:
    mill.insert("clicks", "1,a", "2,a")
    mill.insert("clicks", "3,a")
    assert channel(mill, "clicks").rows == 3
    Compactor(mill.executor, {}).compact_major("clicks")  # a base beside the two deltas that it was made of
    found = channel(mill, "clicks")
    assert (found.rows, found.registered.rows) == (3, 6)
    mill.insert("clicks", "4,b")
    assert channel(mill, "clicks").rows == 4


def test_rows_that_upserts_leave_are_not_guessed(mill: Mill) -> None:
    assert channel(mill, "pages").rows == 0
    mill.insert("pages", "x,a", "y,a")
    mill.insert("pages", "x,b")
    assert (channel(mill, "pages").rows, channel(mill, "pages").registered.rows) == (None, 3)
    Compactor(mill.executor, {}).compact_major("pages")
    assert channel(mill, "pages").rows == 2
