"""Watermarks on Spark: with any batching, each event is emitted once, in time or as a late event."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random

import pytest
from tests.acceptance.conftest import Open, name_values

import tidemill as tm
from tidemill.app.wiring import Tidemill
from tidemill.errors import WorkflowError
from tidemill.runtime.freshness.staleness import StalenessMeasure, measure_staleness
from tidemill.runtime.inspect.statistics import render_metrics
from tidemill.runtime.inspect.status import read_status

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
SCHEMA = "id bigint, at timestamp, last boolean"


def workflow(**options: object) -> tm.Workflow:
    wf = tm.Workflow("events")
    wf.input("events", SCHEMA)
    wf.watermark("in_time", "events", at="at", **options)  # type: ignore[arg-type]
    return wf


def arrive(mill: Tidemill, *events: tuple[int, int | None, bool]) -> None:
    rows = [(n, None if at is None else EPOCH + timedelta(seconds=at), last) for n, at, last in events]
    mill.insert("events", name_values(SCHEMA, rows))
    mill.run("in_time")


def ids(mill: Tidemill, channel: str) -> list[int]:
    return sorted(row["id"] for row in mill.rows(channel) if row["id"] is not None)


def test_events_are_emitted_once_the_watermark_has_passed_them(open_mill: Open) -> None:
    mill = open_mill(workflow(delay="10s"))
    arrive(mill, (1, 0, False), (2, 8, False), (3, 12, False))
    assert (ids(mill, "in_time"), ids(mill, "in_time.pending")) == ([1], [2, 3])  # the watermark is at 2
    arrive(mill, (4, 5, False), (5, 20, False))
    assert (ids(mill, "in_time"), ids(mill, "in_time.pending")) == ([1, 2, 4], [3, 5])
    arrive(mill, (6, 3, False), (7, None, False))  # too late, and without a time
    assert (ids(mill, "in_time"), ids(mill, "in_time.late")) == ([1, 2, 4], [6, 7])


@pytest.mark.long
def test_the_watermark_does_not_depend_on_batches(open_mill: Open) -> None:
    random, mill = Random(1), open_mill(workflow(delay=30))
    events = [(n, n * 5 - random.randrange(31), False) for n in range(40)]
    for first in range(0, 40, 13):
        arrive(mill, *events[first : first + 13])
    newest = max(at for _, at, _ in events)
    assert ids(mill, "in_time.late") == []  # no event was more out of order than the delay
    assert ids(mill, "in_time") == sorted(n for n, at, _ in events if at <= newest - 30)
    assert len(ids(mill, "in_time") + ids(mill, "in_time.pending")) == 40


def test_punctuation_sets_the_watermark(open_mill: Open) -> None:
    mill = open_mill(workflow(punctuation="last"))
    arrive(mill, (1, 5, False), (2, 9, False))
    assert ids(mill, "in_time") == []
    arrive(mill, (3, 7, True))
    assert (ids(mill, "in_time"), ids(mill, "in_time.pending")) == ([1, 3], [2])


def workflow_with_counts(**options: object) -> tm.Workflow:
    """A table over the emitted events, and one over all events."""
    wf = workflow(**options)
    wf.sql("counts", "SELECT count(*) AS n FROM in_time", priority=5.0)
    wf.sql("everything", "SELECT count(*) AS n FROM events")
    return wf


def read_watermarks(mill: Tidemill, *channels: str) -> list[float | None]:
    """In seconds after the epoch of these tests."""
    watermarks = {c.registered.channel.name: c.watermark for c in read_status(mill.catalog).channels}
    return [None if watermarks[c] is None else watermarks[c] / 1e6 - EPOCH.timestamp() for c in channels]


@pytest.mark.long
def test_a_table_is_as_fresh_as_the_watermark_that_it_reflects(open_mill: Open) -> None:
    mill = open_mill(workflow_with_counts(delay="10s"))
    arrive(mill, (1, 0, False), (2, 30, False), (3, 25, False))
    mill.run("counts")
    mill.run("everything")
    assert read_watermarks(mill, "in_time", "in_time.late", "counts", "events", "everything") == [
        20,
        20,
        20,
        None,
        None,
    ]
    arrive(mill, (4, 22, False), (5, 50, False))
    assert read_watermarks(mill, "in_time", "counts") == [40, 20]  # it has not read the new rows
    arrive(mill, (6, 5, False))
    mill.run("counts")
    assert read_watermarks(mill, "in_time", "counts") == [40, 40]  # a late event does not move the watermark
    history, now = mill.history(), EPOCH.timestamp() + 1e9
    staleness = {
        t: measure_staleness(history, t, StalenessMeasure.STALENESS, now) for t in ("in_time", "counts", "everything")
    }
    assert (staleness["in_time"], staleness["counts"]) == (1e9 - 40, 1e9 - 40)
    assert 0 < (staleness["everything"] or 0) < 1e9  # staleness of the rows since then, by arrival time
    text = render_metrics(read_status(mill.catalog), (), history, now, paused=False)
    assert f'tidemill_table_staleness_seconds{{table="counts"}} {1e9 - 40:g}' in text


@pytest.mark.long
def test_without_punctuation_the_staleness_is_unknown(open_mill: Open) -> None:
    mill = open_mill(workflow_with_counts(punctuation="last"))
    arrive(mill, (1, 5, False), (2, 9, False))
    mill.run("counts")
    assert read_watermarks(mill, "in_time", "counts") == [None, None]
    assert measure_staleness(mill.history(), "in_time", StalenessMeasure.STALENESS, EPOCH.timestamp() + 1e9) is None
    arrive(mill, (3, 7, True))
    mill.run("counts")
    arrive(mill, (4, 20, False))
    assert read_watermarks(mill, "in_time", "counts") == [7, 7]
    last = mill.catalog.runs.list(subject="in_time", limit=1)[0]
    assert last.stats["tasks"]["in_time"]["watermark"] == EPOCH.timestamp() + 7


def test_a_channel_without_event_time_is_rejected() -> None:
    wf = tm.Workflow("events")
    wf.input("events", SCHEMA)
    with pytest.raises(WorkflowError, match="no column 'when' of event time"):
        wf.watermark("in_time", "events", at="when")
    with pytest.raises(WorkflowError, match="must be an append channel"):
        wf.watermark("in_time", "others", at="at")
