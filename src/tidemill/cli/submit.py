"""`submit` and `submissions`: one-shot workflows, and what became of them."""

from __future__ import annotations

import getpass
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import RenderableType

from tidemill.app import serialization
from tidemill.cli import tables
from tidemill.cli.formatting import ago, lasted, plural, size
from tidemill.cli.options import AsJson, Limit, opened
from tidemill.cli.output import console, show, table
from tidemill.cli.progress import Bar
from tidemill.errors import BadInput
from tidemill.model.run import RunState
from tidemill.model.submission import Submission, SubmittedAction


def register(app: typer.Typer) -> None:
    for command in (submit, submissions):
        app.command()(command)


def submit(
    ctx: typer.Context,
    workflow: Annotated[Path, typer.Argument(help="A one-shot workflow in JSON.", exists=True, dir_okay=False)],
    watch: Annotated[bool, typer.Option("--watch", help="Run what is ready here too, and wait for the end.")] = False,
    as_json: AsJson = False,
) -> None:
    """Submit a one-shot workflow. What was computed before is reused; servers run the rest, or --watch does."""
    with opened(ctx) as mill:
        made = mill.workshop.submit(_text(workflow), getpass.getuser())
        if watch:
            with Bar(console(sys.stderr)) as bar:
                made = mill.workshop.see_through(made.id, lambda s: bar(s.workflow, _done(s)))
    show(as_json, serialization.submission(made), _actions(made), _said(made))


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{path} cannot be read as text: {error}") from error


def _done(submission: Submission) -> float:
    return sum(a.state is RunState.FINISHED for a in submission.actions) / len(submission.actions)


def _said(submission: Submission) -> str:
    ran = {a.run.id for a in submission.actions if a.run is not None}
    saved = lasted(0.0, sum(a.saved for a in submission.actions))
    total = plural(len(submission.actions), "action")
    return f"submission {submission.id} {submission.state}: {total}, {len(ran)} computed, {saved} saved"


def submissions(
    ctx: typer.Context,
    number: Annotated[int | None, typer.Argument(metavar="SUBMISSION", help="Show this one with its actions.")] = None,
    limit: Limit = 20,
    as_json: AsJson = False,
) -> None:
    """List submissions of one-shot workflows, the newest first; or show one of them."""
    with opened(ctx) as mill:
        ledger = mill.workshop.ledger
        if number is not None:
            one = ledger.submission(number)
            show(as_json, serialization.submission(one), _actions(one), _said(one))
            return
        found, now = ledger.submissions(limit=limit), mill.catalog.now()
    show(as_json, {"submissions": [serialization.submission(s) for s in found]}, _list(found, now))


def _list(found: list[Submission], now: float) -> RenderableType:
    headings = (">submission", "workflow", "by", "when", "state", ">actions", ">computed", ">saved")
    return table("", headings, (_submission(s, now) for s in found), empty="nothing was submitted yet")


def _submission(value: Submission, now: float) -> list[object]:
    ran = {a.run.id for a in value.actions if a.run is not None}
    saved = lasted(0.0, sum(a.saved for a in value.actions))
    named = [value.id, value.workflow, value.user, ago(value.at, now), tables.state(value.state)]
    return [*named, len(value.actions), len(ran), saved]


def _actions(value: Submission) -> RenderableType:
    headings = ("id", "action", "type", "state", "because", ">run", ">took", ">size", "error")
    return table("", headings, (_action(a) for a in value.actions))


def _action(value: SubmittedAction) -> list[object]:
    run = value.run
    error = (run.error or "").partition("\n")[0] if run else ""
    made = [None, None] if run is None else [run.id, tables.took(run)]
    return [
        value.key,
        value.name,
        value.kind,
        tables.state(value.state),
        value.verdict,
        *made,
        size(value.bytes),
        error,
    ]
