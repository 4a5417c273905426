"""The `tidemill` program: its commands, in the order in which help lists them, and the exit codes of their failures."""

import gc
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
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
    demo,
    doctor,
    init,
    insert,
    maintenance,
    moved,
    oneshot,
    read,
    runs,
    serve,
    sim,
    status,
)
from tidemill.cli.command import build_command
from tidemill.cli.output import Answer, print_json_message, print_message, write_output
from tidemill.errors import TidemillError
from tidemill.model.error_summary import summarize_error
from tidemill.model.redaction import Redactor

COMMANDS: tuple[Callable[..., Answer | None], ...] = (
    *(demo.demo, init.init, doctor.doctor, doctor.prepare, apply.plan, apply.apply, insert.insert),
    *(insert.push, insert.subscribe, runs.run, runs.kill, oneshot.submit, oneshot.submissions, oneshot.history),
    *(status.explain, status.status, status.staleness, status.flows),
    *(channels.channels, channels.blocks, channels.trace, channels.lineage, runs.runs, runs.events, read.read),
    *(serve.up, serve.work, serve.servers, serve.triggers, serve.workflows, serve.register, serve.remove),
    *(serve.pause, serve.resume, serve.prioritise, serve.dispatching, serve.statistics),
    *(maintenance.compact, maintenance.gc, maintenance.maintenance, maintenance.adopt_store),
    *(oneshot.storage, oneshot.pin, oneshot.unpin),
)
ACCESS = (access.users, access.user, access.token, access.revoke, access.owners, access.audit)
CHANGES = frozenset(
    {
        *(apply.apply, insert.insert, runs.run, runs.kill, oneshot.submit, oneshot.storage, oneshot.pin, oneshot.unpin),
        *(serve.register, serve.remove, serve.pause, serve.resume, serve.prioritise, serve.dispatching),
        *(maintenance.compact, maintenance.gc, maintenance.maintenance),
        *(access.user, access.token, access.revoke, access.owners),
    }
)
"""Commands that change the project, or may do so: they are recorded in the audit log. `up` records what it applies."""
SIM = (sim.staleness, sim.policies)


def build_program() -> typer.Typer:
    app = typer.Typer(name="tidemill", pretty_exceptions_enable=False)
    app.callback(invoke_without_command=True)(_set_globals)
    _add_commands(app, COMMANDS)
    _add_group(app, "access", "Users of the API, their tokens, and who owns which workflow.", ACCESS)
    _add_group(app, "sim", "Simulations in virtual time.", SIM)
    return app


def _add_commands(app: typer.Typer, functions: Sequence[Callable[..., Answer | None]]) -> None:
    for function in functions:
        app.command(function.__name__.replace("_", "-"))(build_command(function, audited=function in CHANGES))


def _add_group(app: typer.Typer, name: str, help: str, functions: Sequence[Callable[..., Answer | None]]) -> None:
    group = typer.Typer(help=help, no_args_is_help=True)
    _add_commands(group, functions)
    app.add_typer(group, name=name)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command; ends the process with its exit code."""
    argv = sys.argv[1:] if arguments is None else list(arguments)
    debug = "--debug" in argv or os.environ.get("TIDEMILL_DEBUG") == "1"
    failures = FailureReporter(as_json="--json" in argv, debug=debug)
    code = failures.run_command(lambda: _run_command(argv))
    if "duckdb" not in sys.modules:  # it reports objects that are not destroyed
        gc.freeze()  # else Python would search all modules for unreachable cycles before it ends
    sys.exit(code)


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
        Path, typer.Option(help="A directory of the project; its root is searched upwards from there.")
    ] = Path(),
    _debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks; TIDEMILL_DEBUG=1 does too.")] = False,
    _version: Annotated[
        bool, typer.Option("--version", help="Print the version.", is_eager=True, callback=_show_version)
    ] = False,
) -> None:
    """Keep derived tables fresh on Spark."""
    ctx.obj = project
    if ctx.invoked_subcommand is None:
        write_output(f"{ctx.get_help()}\n")


INTERRUPTED = 130


@dataclass(frozen=True, slots=True)
class FailureReporter:
    as_json: bool
    debug: bool

    def run_command(self, command: Callable[[], object]) -> int:
        """Run the command; returns its exit code."""
        try:
            code = command()
        except TidemillError as error:
            return self._report_error(error, str(error), error.exit_code)
        except typer.TyperException as error:
            error.add_note("add --help to see the options")
            return self._report_error(error, error.format_message(), error.exit_code)
        except typer.Abort as error:
            return self._report_error(error, "stopped; nothing was changed", 1)
        except Exception as error:
            message = f"{summarize_error(error)}; this is a bug in Tidemill; --debug shows the traceback"
            return self._report_error(error, message, 1)
        if code == INTERRUPTED:
            return self._report_error(KeyboardInterrupt(), "interrupted; nothing became visible", INTERRUPTED)
        return code if isinstance(code, int) else 0

    def _report_error(self, error: BaseException, message: str, code: int) -> int:
        redact = Redactor.from_values(os.environ).redact
        if self.debug:
            print_message(redact("".join(traceback.format_exception(error)).rstrip()))
        notes: list[str] = getattr(error, "__notes__", [])
        if self.as_json:
            shown = {"kind": type(error).__name__, "message": redact(message), "notes": notes}
            print_json_message({"error": shown})
        else:
            print_message("\n".join([f"error: {redact(message)}", *notes]))
        return code
