"""The `tidemill` program: its commands, in the order in which help lists them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Annotated

import typer
from typer.main import get_command

from tidemill import __version__
from tidemill.cli import (
    access,
    apply,
    channels,
    datasets,
    demo,
    dispatching,
    doctor,
    explain,
    history,
    init,
    insert,
    maintenance,
    moved,
    push,
    read,
    run,
    runs,
    serve,
    sim,
    status,
    submit,
)
from tidemill.cli.failures import FailureReporter
from tidemill.cli.options import GlobalOptions
from tidemill.cli.output import write_output

COMMANDS: tuple[Callable[[typer.Typer], None], ...] = (
    demo.register_commands,
    init.register_commands,
    doctor.register_commands,
    apply.register_commands,
    insert.register_commands,
    push.register_commands,
    run.register_commands,
    submit.register_commands,
    history.register_commands,
    explain.register_commands,
    status.register_commands,
    channels.register_commands,
    runs.register_commands,
    read.register_commands,
    serve.register_commands,
    dispatching.register_commands,
    access.register_commands,
    maintenance.register_commands,
    datasets.register_commands,
    sim.register_commands,
    moved.register_commands,
)


def build_program() -> typer.Typer:
    app = typer.Typer(name="tidemill", pretty_exceptions_enable=False)
    app.callback(invoke_without_command=True)(_set_globals)
    for register in COMMANDS:
        register(app)
    return app


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command; ends the process with its exit code."""
    argv = sys.argv[1:] if arguments is None else list(arguments)
    debug = "--debug" in argv or os.environ.get("TIDEMILL_DEBUG") == "1"
    failures = FailureReporter(as_json="--json" in argv, debug=debug)
    sys.exit(failures.run_command(lambda: _run_command(argv)))


def _run_command(arguments: Sequence[str]) -> object:
    moved.check_renamed(arguments)
    return _build_command()(arguments, prog_name="tidemill", standalone_mode=False)


@cache
def _build_command() -> Callable[..., object]:
    return get_command(build_program())


def _show_version(is_requested: bool) -> None:
    if is_requested:
        write_output(f"tidemill {__version__}\n")
        raise typer.Exit


def _set_globals(
    ctx: typer.Context,
    project: Annotated[
        Path, typer.Option("--project", help="A directory of the project; its root is searched upwards from there.")
    ] = Path(),
    _debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks; TIDEMILL_DEBUG=1 does too.")] = False,
    _version: Annotated[
        bool, typer.Option("--version", help="Print the version.", is_eager=True, callback=_show_version)
    ] = False,
) -> None:
    """Keep derived tables fresh on Spark."""
    ctx.obj = GlobalOptions(project)
    if ctx.invoked_subcommand is None:
        write_output(f"{ctx.get_help()}\n")
