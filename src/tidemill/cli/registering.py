"""`plan` and `apply`: what the workflow files declare, against what is registered."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from tidemill import documents
from tidemill.cli import tables
from tidemill.cli.options import AsJson, opened
from tidemill.cli.output import show
from tidemill.cli.values import plural
from tidemill.model.registration import Step

CHANGES = 2
"""Exit code of `plan --exit-code` if there is something to apply."""


def register(app: typer.Typer) -> None:
    app.command()(plan)
    app.command()(apply)


def plan(
    ctx: typer.Context,
    exit_code: Annotated[bool, typer.Option("--exit-code", help="Exit with 2 if there are changes.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show what `apply` would change."""
    with opened(ctx) as mill:
        steps, doubts = mill.plan(), mill.doubts()
    show(
        as_json, {**_document(steps), "doubts": list(doubts)}, tables.steps(steps), *(f"doubtful: {d}" for d in doubts)
    )
    if exit_code and steps:
        raise typer.Exit(CHANGES)


def apply(
    ctx: typer.Context,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: AsJson = False,
) -> None:
    """Register what the workflow files declare. On a terminal it asks first, unless --yes or --json is given."""
    with opened(ctx) as mill:
        if not as_json:
            _announce(mill.plan(), ask=not yes and sys.stdin.isatty())
        steps = mill.apply()
    show(as_json, _document(steps), *([f"applied {plural(len(steps), 'change')}"] if steps else []))


def _announce(steps: tuple[Step, ...], *, ask: bool) -> None:
    """Show the changes, and stop unless whoever sits at the terminal wants them."""
    show(False, {}, tables.steps(steps))
    if steps and ask:
        typer.confirm("Apply these changes?", abort=True)


def _document(steps: tuple[Step, ...]) -> dict[str, object]:
    return {"steps": [documents.step(s) for s in steps]}
