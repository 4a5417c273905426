"""`plan` and `apply`: compare the workflow files with the registered workflows, and register them."""

import sys
from typing import Annotated

import typer

from tidemill.cli import tables
from tidemill.cli.command import AsJson, Tidemill
from tidemill.cli.output import Answer, show_answer
from tidemill.display.formatting import format_plural
from tidemill.wire.server_schemas import RegistrationPlanDocument

CHANGES = 2
"""Exit code of `plan --exit-code` if there are changes to apply."""


def plan(
    mill: Tidemill,
    exit_code: Annotated[bool, typer.Option("--exit-code", help="Exit with 2 if there are changes.")] = False,
) -> Answer:
    """Show what `apply` would change."""
    steps, warnings = mill.plan(), mill.infeasible_targets()
    return Answer(
        RegistrationPlanDocument.build(steps=steps, infeasible_targets=warnings),
        tables.render_steps(steps),
        *_format_warnings(warnings),
        exit_code=CHANGES if exit_code and steps else 0,
    )


def apply(
    mill: Tidemill,
    as_json: AsJson = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> Answer:
    """Register the declarations of the workflow files. On a terminal it asks first, unless --yes or --json is given."""
    planned, warnings = mill.plan(), mill.infeasible_targets()
    if not as_json:
        show_answer(False, {}, tables.render_steps(planned), *_format_warnings(warnings))
        if planned and not yes and sys.stdin.isatty():
            typer.confirm("Apply these changes?", abort=True)
    steps = mill.apply()
    document = RegistrationPlanDocument.build(steps=steps, infeasible_targets=warnings)
    return Answer(document, *([f"applied {format_plural(len(steps), 'change')}"] if steps else []))


def _format_warnings(warnings: tuple[str, ...]) -> list[str]:
    return [f"warning: {warning}" for warning in warnings]
