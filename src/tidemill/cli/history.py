"""`history`: what was done over time, and what reuse has saved."""

from __future__ import annotations

from typing import Annotated

import typer

from tidemill.app import serialization
from tidemill.cli.formatting import format_count, format_duration, format_size
from tidemill.cli.options import AsJson, opened
from tidemill.cli.output import build_table, show_answer
from tidemill.model.timestamps import format_iso, parse_moment
from tidemill.model.usage import UsagePeriod
from tidemill.retention.usage_history import TimeResolution, UsageFigures, UsageSplit

COUNTS = (">submissions", ">actions", ">computed", ">hits", ">refreshes", ">failed", ">took", ">saved", ">made")


def register_commands(app: typer.Typer) -> None:
    app.command()(history)


def history(
    ctx: typer.Context,
    since: Annotated[str, typer.Option("--since", help="A time in UTC, or so far back: '24 hours'.")] = "7 days",
    until: Annotated[str, typer.Option("--until", help="The same, for the end.")] = "0s",
    by: Annotated[TimeResolution, typer.Option("--by", help="One line for each.")] = TimeResolution.DAY,
    per: Annotated[UsageSplit | None, typer.Option("--per", help="And each of these on lines of its own.")] = None,
    user: Annotated[str | None, typer.Option("--user", help="Only what they submitted.")] = None,
    workflow: Annotated[str | None, typer.Option("--workflow", help="Only of this workflow.")] = None,
    task: Annotated[str | None, typer.Option("--task", help="Only this task, or actions of this name.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show what was submitted and refreshed over time: how much was computed, how much reused, and what that saved."""
    with opened(ctx) as mill:
        now = mill.catalog.read_time()
        period = UsagePeriod(parse_moment(since, now), parse_moment(until, now), user, workflow, task)
        found = mill.workshop.compute_usage(period, by, per)
    headings = ("from", *([] if per is None else [str(per)]), *COUNTS)
    shown = build_table("", headings, (_build_row(f) for f in found), empty="nothing was done")
    show_answer(as_json, serialization.serialize_usage_history(found, by, per), shown)


def _build_row(value: UsageFigures) -> list[object]:
    counts = map(format_count, (value.submissions, value.actions, value.computed))
    runs = map(format_count, (value.refreshes, value.failed))
    spent = [format_duration(0.0, value.seconds), format_duration(0.0, value.saved)]
    named = [format_iso(value.begin), *([] if value.of is None else [value.of])]
    return [*named, *counts, f"{value.hits} ({value.hit_rate:.0%})", *runs, *spent, format_size(value.bytes)]
