"""`init`: a project to start from."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

from tidemill.app.settings import FILE
from tidemill.cli.options import AsJson
from tidemill.cli.output import show_answer
from tidemill.errors import ConfigError

# By the name that a file gets, that under which this package keeps it: git would obey a .gitignore here.
STARTER: Mapping[str, str] = {
    FILE: FILE,
    "workflow.py": "workflow.py",
    "orders.csv": "orders.csv",
    ".gitignore": "gitignore",
}

NEXT = ("tidemill apply", "tidemill insert orders orders.csv", "tidemill run report")


def register_commands(app: typer.Typer) -> None:
    app.command()(init)


def init(
    directory: Annotated[Path, typer.Argument(help="Where to make the project.")] = Path(),
    as_json: AsJson = False,
) -> None:
    """Make a project with a small workflow that runs as it is."""
    _check_files_absent(directory)
    made = [_write_file(directory / name, kept) for name, kept in STARTER.items()]
    commands = NEXT if directory.resolve() == Path.cwd() else (f"cd {directory}", *NEXT)
    document = {"created": [str(p) for p in made], "next": list(commands)}
    show_answer(as_json, document, *(f"made {path}" for path in made), "", "Next:", *(f"  {c}" for c in commands))


def _check_files_absent(directory: Path) -> None:
    """All files or none: a project half made is worse than none."""
    there = [name for name in STARTER if (directory / name).exists()]
    if there:
        where = "this directory" if directory == Path() else str(directory)
        raise ConfigError(f"{where} already has {', '.join(there)}; nothing was written. Choose another directory")


def _write_file(path: Path, kept: str) -> Path:
    text = files("tidemill.cli").joinpath("starter", kept).read_text(encoding="utf-8")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror}; choose another directory") from error
    return path
