"""Commands and options of earlier releases: each fails and names its successor."""

from collections.abc import Sequence

from tidemill.errors import ConfigError

RENAMED_COMMANDS = {
    "follow": "`tidemill subscribe`",
    "upkeep": "`tidemill maintenance`",
    "access own": "`tidemill access owners`",
    "bench": "`python -m benchmarks` in a checkout of the project",
    "sim workflows": "`python -m benchmarks workflows` in a checkout of the project",
}
RENAMED_OPTIONS = {
    ("subscribe", "--position"): "--offset-file",
    ("dispatching", "--chop"): "--catch-up-limit",
    ("gc", "--keep"): "--retain",
    ("access token", "--for"): "--label",
    ("access token", "--lasts"): "--expires-in",
    ("sim staleness", "--figure"): "`python -m benchmarks figures --figure` in a checkout",
}


def check_renamed(arguments: Sequence[str]) -> None:
    """Raise `ConfigError` if a command line uses the name of an earlier release."""
    command = " ".join(_list_words(arguments))
    for old, new in RENAMED_COMMANDS.items():
        if f"{command} ".startswith(f"{old} "):
            raise ConfigError(f"`tidemill {old}` was renamed: run {new}")
    options = {argument.split("=", 1)[0] for argument in arguments}
    for (name, old), new in RENAMED_OPTIONS.items():
        if f"{command} ".startswith(f"{name} ") and old in options:
            raise ConfigError(f"the option {old} of `tidemill {name}` was renamed to {new}")


def _list_words(arguments: Sequence[str]) -> list[str]:
    """The command and its arguments, without options and without the value of the global option."""
    pairs = zip(["", *arguments], arguments, strict=False)
    return [word for before, word in pairs if not word.startswith("-") and before != "--project"]
