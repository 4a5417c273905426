"""`history`: usage over time, and the savings by reuse."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tidemill.cli.formatting import format_count, format_duration, format_size
from tidemill.cli.output import Answer, build_table
from tidemill.model.timestamps import format_iso, parse_moment
from tidemill.model.usage import UsagePeriod
from tidemill.retention.usage_history import TimeResolution, UsageFigures, UsageSplit
from tidemill.wire.oneshot_schemas import UsageHistoryDocument

if TYPE_CHECKING:
    from tidemill.app.wiring import Tidemill

COUNTS = (">submissions", ">actions", ">computed", ">hits", ">refreshes", ">failed", ">took", ">saved", ">written")


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
    headings = ("from", *([] if per is None else [str(per)]), *COUNTS)
    table = build_table("", headings, (_build_row(f) for f in figures), empty="no usage")
    return Answer(UsageHistoryDocument.build(by=by, per=per, figures=figures), table)


def _build_row(value: UsageFigures) -> list[object]:
    counts = map(format_count, (value.submissions, value.actions, value.computed))
    runs = map(format_count, (value.refreshes, value.failed))
    spent = [format_duration(0.0, value.seconds), format_duration(0.0, value.saved_seconds)]
    cells = [format_iso(value.begin), *([] if value.group is None else [value.group])]
    return [*cells, *counts, f"{value.hits} ({value.hit_rate:.0%})", *runs, *spent, format_size(value.bytes)]
