"""Options that several commands share, and the options before the command."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidemill.cli.lazy_imports import load_tidemill_class

if TYPE_CHECKING:
    from tidemill.app.wiring import Tidemill

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document instead.")]
Every = Annotated[bool, typer.Option("--all", help="Show the state channels of declared tables too.")]
Limit = Annotated[int, typer.Option("--limit", min=1, help="Maximum number to show.")]


@dataclass(frozen=True, slots=True)
class GlobalOptions:
    """The options before the command."""

    project: Path


def find_start(ctx: typer.Context) -> Path:
    """Return the directory from which the project is searched upwards."""
    options = ctx.find_object(GlobalOptions)
    return options.project if options else Path()


def open_project(ctx: typer.Context) -> Tidemill:
    """Open the project of the command."""
    return load_tidemill_class().open(find_start(ctx))
