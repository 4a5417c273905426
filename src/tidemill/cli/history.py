"""`history`: what was done over time, and what reuse has saved."""

from __future__ import annotations

from typing import Annotated

import typer

from tidemill.app import serialization
from tidemill.cli.formatting import count, lasted, size
from tidemill.cli.options import AsJson, opened
from tidemill.cli.output import show, table
from tidemill.model.timestamps import iso, moment
from tidemill.model.usage import Period
from tidemill.retention.usage_history import Figures, Resolution, Split

COUNTS = (">submissions", ">actions", ">computed", ">hits", ">refreshes", ">failed", ">took", ">saved", ">made")


def register(app: typer.Typer) -> None:
    app.command()(history)


def history(
    ctx: typer.Context,
    since: Annotated[str, typer.Option("--since", help="A time in UTC, or so far back: '24 hours'.")] = "7 days",
    until: Annotated[str, typer.Option("--until", help="The same, for the end.")] = "0s",
    by: Annotated[Resolution, typer.Option("--by", help="One line for each.")] = Resolution.DAY,
    per: Annotated[Split | None, typer.Option("--per", help="And each of these on lines of its own.")] = None,
    user: Annotated[str | None, typer.Option("--user", help="Only what they submitted.")] = None,
    workflow: Annotated[str | None, typer.Option("--workflow", help="Only of this workflow.")] = None,
    task: Annotated[str | None, typer.Option("--task", help="Only this task, or actions of this name.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show what was submitted and refreshed over time: how much was computed, how much reused, and what that saved."""
    with opened(ctx) as mill:
        now = mill.catalog.now()
        period = Period(moment(since, now), moment(until, now), user, workflow, task)
        found = mill.workshop.past(period, by, per)
    headings = ("from", *([] if per is None else [str(per)]), *COUNTS)
    shown = table("", headings, (_line(f) for f in found), empty="nothing was done")
    show(as_json, serialization.figures(found, by, per), shown)


def _line(value: Figures) -> list[object]:
    counts = map(count, (value.submissions, value.actions, value.computed))
    runs = map(count, (value.refreshes, value.failed))
    spent = [lasted(0.0, value.seconds), lasted(0.0, value.saved)]
    named = [iso(value.begin), *([] if value.of is None else [value.of])]
    return [*named, *counts, f"{value.hits} ({value.hit_rate:.0%})", *runs, *spent, size(value.bytes)]
