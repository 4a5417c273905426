"""Figures of the past: periods of every length, each of them apart, refreshes beside actions."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tidemill.errors import BadInput
from tidemill.model.run import RunState
from tidemill.model.timestamps import moment
from tidemill.model.usage import Past
from tidemill.retention.usage_history import Figures, Resolution, Split, figures, tallied, without_gaps

NOON = datetime(2026, 5, 13, 12, 34, 56, tzinfo=UTC).timestamp()  # a Wednesday
ACTION = Past(NOON, "ada", "words", "raw", 1, "new", 7, RunState.FINISHED, 2.0, 0.0, 100)
REFRESH = Past(NOON, None, "shop", "totals", None, None, 8, RunState.FINISHED, 0.5, 0.0, 10)


def begin(by: Resolution) -> str:
    return f"{datetime.fromtimestamp(by.begin(NOON), UTC):%d %H:%M:%S}"


def test_periods_begin_where_people_expect() -> None:
    assert {str(by): begin(by) for by in Resolution} == {
        "minute": "13 12:34:00",
        "hour": "13 12:00:00",
        "day": "13 00:00:00",
        "week": "11 00:00:00",
        "month": "01 00:00:00",
    }


@given(by=st.sampled_from(Resolution), at=st.floats(0, 4e9))
def test_periods_follow_each_other_without_gap_or_overlap(by: Resolution, at: float) -> None:
    first = by.begin(at)
    then = by.following(first)
    assert first <= at < then
    assert by.begin(first) == first
    assert by.begin(then) == then
    assert by.begin(then - 0.01) == first


def test_refreshes_count_beside_actions_each_task_of_a_run_for_itself() -> None:
    other = replace(REFRESH, task="rows", seconds=0.25, bytes=5)
    failed = replace(REFRESH, run=9, state=RunState.FAILED)
    hit = replace(ACTION, submission=2, user="bob", verdict="reused", run=None, state=None, saved=2.0)
    (day,) = figures([ACTION, hit, REFRESH, other, failed], [], Resolution.DAY)
    assert (day.submissions, day.actions, day.computed, day.hits) == (2, 2, 1, 1)
    assert (day.refreshes, day.failed) == (2, 1)
    assert (day.seconds, day.saved, day.bytes) == (2.75, 2.0, 115)


def test_each_user_workflow_or_task_has_a_line_of_its_own() -> None:
    def parts(per: Split) -> list[str | None]:
        return [f.of for f in figures([REFRESH, ACTION], [], Resolution.HOUR, per)]

    assert parts(Split.USER) == ["", "ada"]
    assert parts(Split.WORKFLOW) == ["shop", "words"]
    assert parts(Split.TASK) == ["shop/totals", "words/raw"]


@settings(max_examples=40)
@given(
    past=st.lists(
        st.builds(
            Past,
            at=st.floats(0, 40 * 86_400.0),
            user=st.sampled_from(["ada", "bob"]),
            workflow=st.sampled_from(["words", "shop"]),
            task=st.sampled_from("abc"),
            submission=st.integers(1, 4) | st.none(),
            verdict=st.sampled_from(["new", "reused"]),
            run=st.integers(1, 10_000),
            state=st.sampled_from([RunState.FINISHED, RunState.FAILED]),
            seconds=st.integers(0, 9).map(float),
            saved=st.integers(0, 9).map(float),
            bytes=st.integers(0, 9),
        ),
        max_size=6,
        unique_by=lambda p: p.run,
    ),
    by=st.sampled_from(list(Resolution)[1:]),
    per=st.sampled_from([None, Split.USER, Split.WORKFLOW]),
)
@example(past=[replace(REFRESH, at=5 * 86_400 - 1e-7)], by=Resolution.DAY, per=None)
def test_what_was_forgotten_still_counts(past: list[Past], by: Resolution, per: Split | None) -> None:
    """All remembered, or all forgotten: the same figures. One submission is of one moment and one user."""
    known: dict[int | None, Past] = {}
    past = [p if p.submission is None else _alike(p, known.setdefault(p.submission, p)) for p in past]
    assert figures([], tallied(past), by, per) == figures(past, [], by, per)


def _alike(one: Past, first: Past) -> Past:
    return replace(one, at=first.at, user=first.user, workflow=first.workflow)


def test_gaps_are_filled_and_the_newest_are_taken() -> None:
    found = figures([ACTION, replace(ACTION, at=NOON + 3 * 3600)], [], Resolution.HOUR)
    filled = without_gaps(found, Resolution.HOUR, 3)
    assert [f.actions for f in filled] == [0, 0, 1]
    assert without_gaps([], Resolution.DAY, 3) == []
    assert without_gaps([Figures(0.0)], Resolution.DAY, 3) == [Figures(0.0)]


def test_moments_are_times_or_so_long_ago() -> None:
    assert moment("1 hour", 10_000.0) == 6_400.0
    with pytest.raises(BadInput, match="neither a duration such as '7 days' nor a time"):
        moment("long", 0.0)
