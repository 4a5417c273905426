"""Trailing edges on Spark: whatever the batching, events come out once, in time or as late ones."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random

import pytest
from tests.acceptance.conftest import Open

import tidemill as tm
from tidemill.app import Tidemill
from tidemill.errors import WorkflowError

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
SCHEMA = "id bigint, at timestamp, last boolean"


def workflow(**how: object) -> tm.Workflow:
    wf = tm.Workflow("events")
    wf.input("events", SCHEMA)
    wf.settled("settled", "events", at="at", **how)  # type: ignore[arg-type]
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


def test_what_has_no_event_time_is_refused() -> None:
    wf = tm.Workflow("events")
    wf.input("events", SCHEMA)
    with pytest.raises(WorkflowError, match="no column 'when' of event time"):
        wf.settled("settled", "events", at="when")
    with pytest.raises(WorkflowError, match="must be an append channel"):
        wf.settled("settled", "others", at="at")
