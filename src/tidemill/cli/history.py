"""`history`: usage over time, and the savings by reuse."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tidemill.cli.output import Answer, render_list
from tidemill.display.columns import build_usage_columns
from tidemill.model.timestamps import parse_moment
from tidemill.model.usage import UsagePeriod
from tidemill.retention.usage_history import TimeResolution, UsageSplit
from tidemill.wire.oneshot_schemas import UsageHistoryDocument

if TYPE_CHECKING:
    from tidemill.app.wiring import Tidemill


def history(
    mill: Tidemill,
    since: Annotated[str, typer.Option("--since", help="A time in UTC, or how long ago: '24 hours'.")] = "7 days",
    until: Annotated[str, typer.Option("--until", help="The same, for the end.")] = "0s",
    by: Annotated[TimeResolution, typer.Option("--by", help="The period of one line.")] = TimeResolution.DAY,
    per: Annotated[UsageSplit | None, typer.Option("--per", help="Split each line by this.")] = None,
    user: Annotated[str | None, typer.Option("--user", help="Only submissions of this user.")] = None,
    workflow: Annotated[str | None, typer.Option("--workflow", help="Only this workflow.")] = None,
    task: Annotated[str | None, typer.Option("--task", help="Only this task, or actions of this name.")] = None,
) -> Answer:
    """Show submissions and refreshes over time: how much was computed and reused, and how much that saved."""
    now = mill.catalog.read_time()
    period = UsagePeriod(parse_moment(since, now), parse_moment(until, now), user, workflow, task)
    figures = mill.oneshot_service.compute_usage(period, by, per)
    shown = render_list("", build_usage_columns(per), figures, empty="no usage")
    return Answer(UsageHistoryDocument.build(by=by, per=per, figures=figures), shown)
