"""`plan` and `apply`: what the workflow files declare, against what is registered."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from tidemill.app import serialization
from tidemill.cli import tables
from tidemill.cli.formatting import plural
from tidemill.cli.options import AsJson, opened
from tidemill.cli.output import show
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
    show(as_json, _document(steps, doubts), tables.steps(steps), *_warnings(doubts))
    if exit_code and steps:
        raise typer.Exit(CHANGES)


def apply(
    ctx: typer.Context,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: AsJson = False,
) -> None:
    """Register what the workflow files declare. On a terminal it asks first, unless --yes or --json is given."""
    with opened(ctx) as mill:
        planned, doubts = mill.plan(), mill.doubts()
        if not as_json:
            _announce(planned, doubts, ask=not yes and sys.stdin.isatty())
        steps = mill.apply()
    show(as_json, _document(steps, doubts), *([f"applied {plural(len(steps), 'change')}"] if steps else []))


def _announce(steps: tuple[Step, ...], doubts: tuple[str, ...], *, ask: bool) -> None:
    """Show the changes with what is doubtful, and stop unless the user at the terminal wants them."""
    show(False, {}, tables.steps(steps), *_warnings(doubts))
    if steps and ask:
        typer.confirm("Apply these changes?", abort=True)


def _warnings(doubts: tuple[str, ...]) -> list[str]:
    return [f"doubtful: {doubt}" for doubt in doubts]


def _document(steps: tuple[Step, ...], doubts: tuple[str, ...]) -> dict[str, object]:
    return {"steps": [serialization.step(s) for s in steps], "doubts": list(doubts)}
