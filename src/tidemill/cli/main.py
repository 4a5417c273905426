"""The `tidemill` program: its commands, in one place and in the order in which help lists them."""

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
from tidemill.cli.failures import Failures
from tidemill.cli.options import Globals
from tidemill.cli.output import write

COMMANDS: tuple[Callable[[typer.Typer], None], ...] = (
    demo.register,
    init.register,
    doctor.register,
    apply.register,
    insert.register,
    push.register,
    run.register,
    submit.register,
    history.register,
    explain.register,
    status.register,
    channels.register,
    runs.register,
    read.register,
    serve.register,
    dispatching.register,
    access.register,
    maintenance.register,
    datasets.register,
    sim.register,
    moved.register,
)


def program() -> typer.Typer:
    app = typer.Typer(name="tidemill", pretty_exceptions_enable=False)
    app.callback(invoke_without_command=True)(_globals)
    for register in COMMANDS:
        register(app)
    return app


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command; ends the process with its exit code."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    debug = "--debug" in given or os.environ.get("TIDEMILL_DEBUG") == "1"
    failures = Failures(as_json="--json" in given, debug=debug)
    sys.exit(failures.guard(lambda: _command()(given, prog_name="tidemill", standalone_mode=False)))


@cache
def _command() -> Callable[..., object]:
    return get_command(program())


def _show_version(wanted: bool) -> None:
    if wanted:
        write(f"tidemill {__version__}\n")
        raise typer.Exit


def _globals(
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
    ctx.obj = Globals(project)
    if ctx.invoked_subcommand is None:
        write(f"{ctx.get_help()}\n")
