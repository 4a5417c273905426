"""`init`: creates a project to start from."""

from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

from tidemill.app.settings import SETTINGS_FILE
from tidemill.cli.output import Answer
from tidemill.errors import ConfigError

# Maps each file's name in the project to its name in this package: git would apply a .gitignore here.
STARTER: Mapping[str, str] = {
    SETTINGS_FILE: SETTINGS_FILE,
    "workflow.py": "workflow.py",
    "orders.csv": "orders.csv",
    ".gitignore": "gitignore",
}

NEXT = ("tidemill apply", "tidemill insert orders orders.csv", "tidemill run report")


def init(directory: Annotated[Path, typer.Argument(help="Where to create the project.")] = Path()) -> Answer:
    """Create a project with a small workflow that runs without changes."""
    _check_files_absent(directory)
    created = [_write_file(directory / name, source) for name, source in STARTER.items()]
    commands = NEXT if directory.resolve() == Path.cwd() else (f"cd {directory}", *NEXT)
    document = {"created": created, "next": commands}
    return Answer(document, *(f"created {path}" for path in created), "", "Next:", *(f"  {c}" for c in commands))


def _check_files_absent(directory: Path) -> None:
    """Raise `ConfigError` if a file exists, so that all files are written or none."""
    existing = [name for name in STARTER if (directory / name).exists()]
    if existing:
        where = "this directory" if directory == Path() else str(directory)
        raise ConfigError(f"{where} already has {', '.join(existing)}; nothing was written. Choose another directory")


def _write_file(path: Path, source: str) -> Path:
    text = files("tidemill.cli").joinpath("starter", source).read_text(encoding="utf-8")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror}; choose another directory") from error
    return path
