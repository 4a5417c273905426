"""How a function becomes a command, and the options that several commands share."""

from __future__ import annotations

import getpass
import os
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack
from functools import wraps
from inspect import Parameter, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidemill.app.auditing import audit_change
from tidemill.cli import lazy_imports
from tidemill.cli.output import Answer, show_answer
from tidemill.display.formatting import escape_controls
from tidemill.model.access import AuditStart

if TYPE_CHECKING:
    from tidemill.app.wiring import Tidemill as Tidemill
else:
    Tidemill = Any  # its import takes about a second

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document instead.")]
Every = Annotated[bool, typer.Option("--all", help="Show the state channels of declared tables too.")]
Limit = Annotated[int, typer.Option("--limit", min=1, help="Maximum number to show.")]


def find_start(ctx: typer.Context) -> Path:
    """Return the directory from which the project is searched upwards."""
    return ctx.find_object(Path) or Path()


def open_project(ctx: typer.Context) -> Tidemill:
    return lazy_imports.Tidemill.open(find_start(ctx))


def audit_command(mill: Tidemill, path: str, arguments: Mapping[str, Any]) -> AbstractContextManager[None]:
    """Record a command with its arguments. Its user is that of the operating system, and needs no role."""
    shown = (f"{n}={v}" for n, v in arguments.items() if v and isinstance(v, str | int | float | Path | list))
    action = escape_controls(" ".join(["COMMAND", path, *shown]))
    return audit_change(mill.catalog.accounts, AuditStart(_find_user_name(), None, "this machine", action))


def _find_user_name() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container may run without a name for its user
        return str(os.getuid())


_CONTEXT = Parameter("ctx", Parameter.KEYWORD_ONLY, annotation=typer.Context)
_AS_JSON = Parameter("as_json", Parameter.KEYWORD_ONLY, annotation=AsJson, default=False)


def build_command(function: Callable[..., Answer | None], *, audited: bool = False) -> Callable[..., None]:
    """The command that calls a function with its options.

    A parameter `mill` is the project, open while the function runs. A command whose function returns an `Answer` has
    the option `--json`, and ends with the exit code of the answer. One that is `audited` is in the audit log.
    """
    declared = signature(function, eval_str=True)
    names = set(declared.parameters)
    options = {p.name: p.replace(kind=Parameter.KEYWORD_ONLY) for p in declared.parameters.values()}
    options.pop("mill", None)
    parameters = {"ctx": _CONTEXT} | options | ({} if declared.return_annotation is None else {"as_json": _AS_JSON})

    @wraps(function)
    def command(ctx: typer.Context, as_json: bool = False, **arguments: Any) -> None:
        arguments |= {name: value for name, value in (("ctx", ctx), ("as_json", as_json)) if name in names}
        with ExitStack() as stack:
            if "mill" in names:
                arguments["mill"] = stack.enter_context(open_project(ctx))
            if audited:
                stack.enter_context(audit_command(arguments["mill"], ctx.command_path, arguments))
            answer = function(**arguments)
        if answer is not None:
            show_answer(as_json, answer.document, *answer.parts)
            if answer.exit_code:
                raise typer.Exit(answer.exit_code)

    command.__signature__ = declared.replace(parameters=list(parameters.values()))  # type: ignore[attr-defined]
    command.__annotations__ = {name: p.annotation for name, p in parameters.items()}
    return command
