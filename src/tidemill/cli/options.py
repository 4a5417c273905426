"""Options that several commands share, and what the options before the command say."""

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
Limit = Annotated[int, typer.Option("--limit", min=1, help="How many to show at most.")]


@dataclass(frozen=True, slots=True)
class GlobalOptions:
    """What was said before the command."""

    project: Path


def start_of(ctx: typer.Context) -> Path:
    """Where the search for the project begins, upwards."""
    said = ctx.find_object(GlobalOptions)
    return said.project if said else Path()


def opened(ctx: typer.Context) -> Tidemill:
    """The project that the command is about."""
    return load_tidemill_class().open(start_of(ctx))
