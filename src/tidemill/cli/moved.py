"""Commands of earlier versions that have moved: each names its replacement."""

from __future__ import annotations

import typer

from tidemill.errors import ConfigError

ANY_ARGUMENTS = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}


def register_commands(app: typer.Typer) -> None:
    app.command("bench", hidden=True, context_settings=ANY_ARGUMENTS)(bench)


def bench(ctx: typer.Context) -> None:
    """Fail, and name the benchmark command."""
    raise build_moved_error("tidemill bench", ctx.args[0] if ctx.args else "--help")


def workflows(ctx: typer.Context) -> None:
    """Fail, and name the command that simulates the paper's workflows."""
    raise build_moved_error("tidemill sim workflows", " ".join(["workflows", *ctx.args]))


def build_moved_error(before: str, after: str) -> ConfigError:
    """Return the error for a command that is a benchmark now."""
    return ConfigError(
        f"`{before}` is no longer part of the package; run `python -m benchmarks {after}` in a checkout of the project"
    )
