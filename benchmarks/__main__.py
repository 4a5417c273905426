"""`python -m benchmarks NAME [--json]`: run one measurement or one experiment of the papers."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import typer
from typer.main import get_command

from benchmarks import commands
from benchmarks.figures.command import figures
from benchmarks.linear_road.command import linear_road, linear_road_kernel
from benchmarks.workflows.command import workflows
from tidemill.cli.failures import FailureReporter


def program() -> typer.Typer:
    app = typer.Typer(
        help="Measure Tidemill on this machine, and repeat the experiments of the papers.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
    )
    for command in (*commands.COMMANDS, linear_road, linear_road_kernel, workflows, figures):
        app.command()(command)
    return app


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command; ends the process with its exit code."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    failures = FailureReporter(as_json="--json" in given, debug="--debug" in given)
    command = get_command(program())
    sys.exit(
        failures.run_command(lambda: command([a for a in given if a != "--debug"], "benchmarks", standalone_mode=False))
    )


if __name__ == "__main__":
    main()
