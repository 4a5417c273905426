"""The usage history: periods of every length, splits, refreshes and actions."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tidemill.errors import BadInput
from tidemill.model.run import RunState
from tidemill.model.timestamps import parse_moment
from tidemill.model.usage import UsageRecord
from tidemill.retention.usage_history import (
    TimeResolution,
    UsageFigures,
    UsageSplit,
    compute_figures,
    fill_gaps,
    tally_usage,
)

NOON = datetime(2026, 5, 13, 12, 34, 56, tzinfo=UTC).timestamp()  # a Wednesday
ACTION = UsageRecord(NOON, "ada", "words", "raw", 1, "new", 7, RunState.FINISHED, 2.0, 0.0, 100)
REFRESH = UsageRecord(NOON, None, "shop", "totals", None, None, 8, RunState.FINISHED, 0.5, 0.0, 10)


def begin(by: TimeResolution) -> str:
    return f"{datetime.fromtimestamp(by.find_begin(NOON), UTC):%d %H:%M:%S}"


def test_periods_begin_at_calendar_boundaries() -> None:
    assert {str(by): begin(by) for by in TimeResolution} == {
        "minute": "13 12:34:00",
        "hour": "13 12:00:00",
        "day": "13 00:00:00",
        "week": "11 00:00:00",
        "month": "01 00:00:00",
    }


@given(by=st.sampled_from(TimeResolution), at=st.floats(0, 4e9))
def test_periods_follow_each_other_without_gap_or_overlap(by: TimeResolution, at: float) -> None:
    first = by.find_begin(at)
    following = by.find_next(first)
    assert first <= at < following
    assert by.find_begin(first) == first
    assert by.find_begin(following) == following
    assert by.find_begin(following - 0.01) == first


def test_refreshes_are_counted_per_task_next_to_actions() -> None:
    other = replace(REFRESH, task="rows", seconds=0.25, bytes=5)
    failed = replace(REFRESH, run=9, state=RunState.FAILED)
    hit = replace(ACTION, submission=2, user="bob", verdict="reused", run=None, state=None, saved_seconds=2.0)
    (day,) = compute_figures([ACTION, hit, REFRESH, other, failed], [], TimeResolution.DAY)
    assert (day.submissions, day.actions, day.computed, day.hits) == (2, 2, 1, 1)
    assert (day.refreshes, day.failed) == (2, 1)
    assert (day.seconds, day.saved_seconds, day.bytes) == (2.75, 2.0, 115)


def test_figures_are_split_by_user_workflow_or_task() -> None:
    def list_groups(per: UsageSplit) -> list[str | None]:
        return [f.group for f in compute_figures([REFRESH, ACTION], [], TimeResolution.HOUR, per)]

    assert list_groups(UsageSplit.USER) == ["", "ada"]
    assert list_groups(UsageSplit.WORKFLOW) == ["shop", "words"]
    assert list_groups(UsageSplit.TASK) == ["shop/totals", "words/raw"]


@settings(max_examples=40)
@given(
    past=st.lists(
        st.builds(
            UsageRecord,
            at=st.floats(0, 40 * 86_400.0),
            user=st.sampled_from(["ada", "bob"]),
            workflow=st.sampled_from(["words", "shop"]),
            task=st.sampled_from("abc"),
            submission=st.integers(1, 4) | st.none(),
            verdict=st.sampled_from(["new", "reused"]),
            run=st.integers(1, 10_000),
            state=st.sampled_from([RunState.FINISHED, RunState.FAILED]),
            seconds=st.integers(0, 9).map(float),
            saved_seconds=st.integers(0, 9).map(float),
            bytes=st.integers(0, 9),
        ),
        max_size=6,
        unique_by=lambda p: p.run,
    ),
    by=st.sampled_from(list(TimeResolution)[1:]),
    per=st.sampled_from([None, UsageSplit.USER, UsageSplit.WORKFLOW]),
)
@example(past=[replace(REFRESH, at=5 * 86_400 - 1e-7)], by=TimeResolution.DAY, per=None)
def test_expired_records_still_count(past: list[UsageRecord], by: TimeResolution, per: UsageSplit | None) -> None:
    """Stored and expired records give the same figures. One submission has one time and one user."""
    first_records: dict[int | None, UsageRecord] = {}
    past = [p if p.submission is None else _copy_submission(p, first_records.setdefault(p.submission, p)) for p in past]
    assert compute_figures([], tally_usage(past), by, per) == compute_figures(past, [], by, per)


def _copy_submission(one: UsageRecord, first: UsageRecord) -> UsageRecord:
    return replace(one, at=first.at, user=first.user, workflow=first.workflow)


def test_gaps_are_filled_and_the_newest_periods_returned() -> None:
    figures = compute_figures([ACTION, replace(ACTION, at=NOON + 3 * 3600)], [], TimeResolution.HOUR)
    filled = fill_gaps(figures, TimeResolution.HOUR, 3)
    assert [f.actions for f in filled] == [0, 0, 1]
    assert fill_gaps([], TimeResolution.DAY, 3) == []
    assert fill_gaps([UsageFigures(0.0)], TimeResolution.DAY, 3) == [UsageFigures(0.0)]


def test_a_time_may_be_a_duration_before_now() -> None:
    assert parse_moment("1 hour", 10_000.0) == 6_400.0
    with pytest.raises(BadInput, match="neither a duration such as '7 days' nor a time"):
        parse_moment("long", 0.0)
