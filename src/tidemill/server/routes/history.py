"""Figures of submissions and refreshes over time."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from tidemill.model.timestamps import parse_moment
from tidemill.model.usage import UsagePeriod
from tidemill.retention.usage_history import TimeResolution, UsageSplit
from tidemill.server.dependencies import AS_VIEWER, Mill
from tidemill.server.error_handlers import build_responses
from tidemill.wire import oneshot_schemas

router = APIRouter(tags=["history"])

_TEXT = r"^[^\x00-\x1f\x7f]+$"
_WHEN = "A time in UTC like 2026-05-01T12:00, or a duration before now, like '7 days'."
Timestamp = Annotated[str, Query(description=_WHEN, pattern=_TEXT, max_length=100)]
OfUser = Annotated[str | None, Query(description="Only submissions of this user.", pattern=_TEXT, max_length=200)]
OfWorkflow = Annotated[str | None, Query(description="Only of this workflow.", pattern=_TEXT, max_length=200)]
OfTask = Annotated[
    str | None, Query(description="Only this task, or actions of this name.", pattern=_TEXT, max_length=200)
]


@router.get("/history", responses=build_responses(400), dependencies=AS_VIEWER)
def get_history(
    mill: Mill,
    since: Timestamp = "7 days",
    until: Timestamp = "0s",
    by: Annotated[TimeResolution, Query(description="The length of the period of each entry.")] = TimeResolution.DAY,
    per: Annotated[UsageSplit | None, Query(description="Split each entry by this.")] = None,
    user: OfUser = None,
    workflow: OfWorkflow = None,
    task: OfTask = None,
) -> oneshot_schemas.UsageHistoryDocument:
    """Show submissions and refreshes over time: how much was computed, how much reused, and how much that saved."""
    now = mill.catalog.read_time()
    period = UsagePeriod(parse_moment(since, now), parse_moment(until, now), user, workflow, task)
    figures = mill.oneshot_service.compute_usage(period, by, per)
    return oneshot_schemas.UsageHistoryDocument.build(by=by, per=per, figures=figures)
