"""`python -m benchmarks NAME [--json]`: run one measurement or one experiment of the papers."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import typer
from typer.main import get_command

from benchmarks import commands, load_commands
from benchmarks.figures.command import figures
from benchmarks.linear_road.command import linear_road, linear_road_kernel
from benchmarks.workflows.command import workflows
from tidemill.cli.program import FailureReporter


def build_program() -> typer.Typer:
    app = typer.Typer(
        help="Measure Tidemill on this machine, and repeat the experiments of the papers.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
    )
    for command in (*commands.COMMANDS, *load_commands.COMMANDS, linear_road, linear_road_kernel, workflows, figures):
        app.command()(command)
    app.command("keyed")(commands.keyed_batch)
    return app


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command; ends the process with its exit code."""
    options = sys.argv[1:] if arguments is None else list(arguments)
    failures = FailureReporter(as_json="--json" in options, debug="--debug" in options)
    command = get_command(build_program())
    sys.exit(
        failures.run_command(
            lambda: command([a for a in options if a != "--debug"], "benchmarks", standalone_mode=False)
        )
    )


if __name__ == "__main__":
    main()
