"""Commands and options of earlier releases: each fails and names its successor."""

from collections.abc import Sequence

import typer

from tidemill.errors import ConfigError

RENAMED_COMMANDS = {"follow": "subscribe", "upkeep": "maintenance", "access own": "access owners"}
RENAMED_OPTIONS = {
    ("subscribe", "--position"): "--offset-file",
    ("dispatching", "--chop"): "--catch-up-limit",
    ("gc", "--keep"): "--retain",
    ("access token", "--for"): "--label",
    ("access token", "--lasts"): "--expires-in",
}

ANY_ARGUMENTS = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}


def check_renamed(arguments: Sequence[str]) -> None:
    """Raise `ConfigError` if a command line uses the name of an earlier release."""
    command = " ".join(_list_words(arguments))
    for old, new in RENAMED_COMMANDS.items():
        if f"{command} ".startswith(f"{old} "):
            raise ConfigError(f"`tidemill {old}` was renamed: run `tidemill {new}`")
    options = {argument.split("=", 1)[0] for argument in arguments}
    for (name, old), new in RENAMED_OPTIONS.items():
        if f"{command} ".startswith(f"{name} ") and old in options:
            raise ConfigError(f"the option {old} of `tidemill {name}` was renamed to {new}")


def _list_words(arguments: Sequence[str]) -> list[str]:
    """The command and its arguments, without options and without the value of the global option."""
    pairs = zip(["", *arguments], arguments, strict=False)
    return [word for before, word in pairs if not word.startswith("-") and before != "--project"]


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
