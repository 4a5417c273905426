"""Trailing edges on Spark: whatever the batching, events come out once, in time or as late ones."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random

import pytest
from tests.acceptance.conftest import Open

import tidemill as tm
from tidemill.app.wiring import Tidemill
from tidemill.errors import WorkflowError
from tidemill.runtime.freshness.staleness import StalenessMeasure, measure_staleness
from tidemill.runtime.inspect.metrics import render_metrics
from tidemill.runtime.inspect.status import read_status

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
SCHEMA = "id bigint, at timestamp, last boolean"


def workflow(**how: object) -> tm.Workflow:
    wf = tm.Workflow("events")
    wf.input("events", SCHEMA)
    wf.watermark("settled", "events", at="at", **how)  # type: ignore[arg-type]
    return wf


def arrive(mill: Tidemill, *events: tuple[int, int | None, bool]) -> None:
    rows = [(n, None if at is None else EPOCH + timedelta(seconds=at), last) for n, at, last in events]
    mill.insert("events", mill.engine.spark.createDataFrame(rows, SCHEMA))
    mill.run("settled")


def ids(mill: Tidemill, channel: str) -> list[int]:
    return sorted(row["id"] for row in mill.rows(channel) if row["id"] is not None)


def test_events_are_settled_once_nothing_older_is_to_be_expected(open_mill: Open) -> None:
    mill = open_mill(workflow(disorder="10s"))
    arrive(mill, (1, 0, False), (2, 8, False), (3, 12, False))
    assert (ids(mill, "settled"), ids(mill, "settled.held")) == ([1], [2, 3])  # the edge is at 2
    arrive(mill, (4, 5, False), (5, 20, False))
    assert (ids(mill, "settled"), ids(mill, "settled.held")) == ([1, 2, 4], [3, 5])
    arrive(mill, (6, 3, False), (7, None, False))  # too late, and of no time at all
    assert (ids(mill, "settled"), ids(mill, "settled.late")) == ([1, 2, 4], [6, 7])


def test_the_edge_does_not_depend_on_batches(open_mill: Open) -> None:
    random, mill = Random(1), open_mill(workflow(disorder=30))
    events = [(n, n * 5 - random.randrange(31), False) for n in range(40)]
    for first in range(0, 40, 13):
        arrive(mill, *events[first : first + 13])
    newest = max(at for _, at, _ in events)
    assert ids(mill, "settled.late") == []  # nothing was more out of order than was said
    assert ids(mill, "settled") == sorted(n for n, at, _ in events if at <= newest - 30)
    assert len(ids(mill, "settled") + ids(mill, "settled.held")) == 40


def test_punctuation_says_where_the_edge_is(open_mill: Open) -> None:
    mill = open_mill(workflow(punctuation="last"))
    arrive(mill, (1, 5, False), (2, 9, False))
    assert ids(mill, "settled") == []
    arrive(mill, (3, 7, True))
    assert (ids(mill, "settled"), ids(mill, "settled.held")) == ([1, 3], [2])


def counted(**how: object) -> tm.Workflow:
    """A table over what is settled, and one over all that came."""
    wf = workflow(**how)
    wf.sql("counts", "SELECT count(*) AS n FROM settled", priority=5.0)
    wf.sql("everything", "SELECT count(*) AS n FROM events")
    return wf


def edges(mill: Tidemill, *channels: str) -> list[float | None]:
    """In seconds after the epoch of these tests."""
    known = {c.registered.channel.name: c.watermark for c in read_status(mill.catalog).channels}
    return [None if known[c] is None else known[c] / 1e6 - EPOCH.timestamp() for c in channels]


def test_a_table_is_as_fresh_as_the_trailing_edge_that_it_reflects(open_mill: Open) -> None:
    mill = open_mill(counted(disorder="10s"))
    arrive(mill, (1, 0, False), (2, 30, False), (3, 25, False))
    mill.run("counts")
    mill.run("everything")
    assert edges(mill, "settled", "settled.late", "counts", "events", "everything") == [20, 20, 20, None, None]
    arrive(mill, (4, 22, False), (5, 50, False))
    assert edges(mill, "settled", "counts") == [40, 20]  # it has not read on
    arrive(mill, (6, 5, False))
    mill.run("counts")
    assert edges(mill, "settled", "counts") == [40, 40]  # what is late moves nothing
    found, now = mill.history(), EPOCH.timestamp() + 1e9
    stale = {
        t: measure_staleness(found, t, StalenessMeasure.STALENESS, now) for t in ("settled", "counts", "everything")
    }
    assert (stale["settled"], stale["counts"]) == (1e9 - 40, 1e9 - 40)
    assert 0 < (stale["everything"] or 0) < 1e9  # of what came since, by when it came
    text = render_metrics(read_status(mill.catalog), (), found, now, paused=False)
    assert f'tidemill_table_staleness_seconds{{table="counts"}} {1e9 - 40:g}' in text


def test_without_punctuation_nobody_can_say_how_fresh_a_table_is(open_mill: Open) -> None:
    mill = open_mill(counted(punctuation="last"))
    arrive(mill, (1, 5, False), (2, 9, False))
    mill.run("counts")
    assert edges(mill, "settled", "counts") == [None, None]
    assert measure_staleness(mill.history(), "settled", StalenessMeasure.STALENESS, EPOCH.timestamp() + 1e9) is None
    arrive(mill, (3, 7, True))
    mill.run("counts")
    arrive(mill, (4, 20, False))
    assert edges(mill, "settled", "counts") == [7, 7]
    last = mill.catalog.list_runs(subject="settled", limit=1)[0]
    assert last.stats["tasks"]["settled"]["edge"] == EPOCH.timestamp() + 7


def test_what_has_no_event_time_is_refused() -> None:
    wf = tm.Workflow("events")
    wf.input("events", SCHEMA)
    with pytest.raises(WorkflowError, match="no column 'when' of event time"):
        wf.watermark("settled", "events", at="when")
    with pytest.raises(WorkflowError, match="must be an append channel"):
        wf.watermark("settled", "others", at="at")
