"""`plan` and `apply`: compare the workflow files with the registered workflows, and register them."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from tidemill.app import serialization
from tidemill.cli import tables
from tidemill.cli.formatting import format_plural
from tidemill.cli.options import AsJson, open_project
from tidemill.cli.output import show_answer
from tidemill.model.registration import RegistrationChange

CHANGES = 2
"""Exit code of `plan --exit-code` if there are changes to apply."""


def register_commands(app: typer.Typer) -> None:
    app.command()(plan)
    app.command()(apply)


def plan(
    ctx: typer.Context,
    exit_code: Annotated[bool, typer.Option("--exit-code", help="Exit with 2 if there are changes.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show what `apply` would change."""
    with open_project(ctx) as mill:
        steps, warnings = mill.plan(), mill.infeasible_targets()
    show_answer(as_json, _build_document(steps, warnings), tables.render_steps(steps), *_format_warnings(warnings))
    if exit_code and steps:
        raise typer.Exit(CHANGES)


def apply(
    ctx: typer.Context,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: AsJson = False,
) -> None:
    """Register the declarations of the workflow files. On a terminal it asks first, unless --yes or --json is given."""
    with open_project(ctx) as mill:
        planned, warnings = mill.plan(), mill.infeasible_targets()
        if not as_json:
            _announce_changes(planned, warnings, ask=not yes and sys.stdin.isatty())
        steps = mill.apply()
    show_answer(
        as_json,
        _build_document(steps, warnings),
        *([f"applied {format_plural(len(steps), 'change')}"] if steps else []),
    )


def _announce_changes(steps: tuple[RegistrationChange, ...], warnings: tuple[str, ...], *, ask: bool) -> None:
    """Show the changes with warnings, and stop unless the user at the terminal confirms them."""
    show_answer(False, {}, tables.render_steps(steps), *_format_warnings(warnings))
    if steps and ask:
        typer.confirm("Apply these changes?", abort=True)


def _format_warnings(warnings: tuple[str, ...]) -> list[str]:
    return [f"warning: {warning}" for warning in warnings]


def _build_document(steps: tuple[RegistrationChange, ...], warnings: tuple[str, ...]) -> dict[str, object]:
    return {"steps": [serialization.serialize_step(s) for s in steps], "infeasible_targets": list(warnings)}
