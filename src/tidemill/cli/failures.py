"""Ends a command: one message on standard error, and the exit code of its kind of error."""

import traceback
from collections.abc import Callable
from dataclasses import dataclass

import typer

from tidemill.cli.output import print_json_message, print_message
from tidemill.errors import TidemillError

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
            message = f"{type(error).__name__}: {error}; this is a bug in Tidemill; --debug shows the traceback"
            return self._report_error(error, message, 1)
        if code == INTERRUPTED:
            return self._report_error(KeyboardInterrupt(), "interrupted; nothing became visible", INTERRUPTED)
        return code if isinstance(code, int) else 0

    def _report_error(self, error: BaseException, message: str, code: int) -> int:
        if self.debug:
            print_message("".join(traceback.format_exception(error)).rstrip())
        notes: list[str] = getattr(error, "__notes__", [])
        if self.as_json:
            print_json_message({"error": {"kind": type(error).__name__, "message": message, "notes": notes}})
        else:
            print_message("\n".join([f"error: {message}", *notes]))
        return code
