"""`status` and `flows`: how everything stands."""

from __future__ import annotations

from typing import Annotated

import typer

from tidemill.app import serialization
from tidemill.cli import tables
from tidemill.cli.options import AsJson, Every, opened
from tidemill.cli.output import show
from tidemill.runtime.freshness.staleness import Measure
from tidemill.runtime.inspect import status as standing


def register(app: typer.Typer) -> None:
    app.command()(status)
    app.command()(staleness)
    app.command()(flows)


def status(ctx: typer.Context, every: Every = False, as_json: AsJson = False) -> None:
    """Show how fresh every channel is, who is behind, and what runs."""
    with opened(ctx) as mill:
        found, at = standing.status(mill.catalog), mill.catalog.now()
    now = found if every else standing.without_states(found)
    active = tables.runs("active runs", now.active, at)
    promised = [tables.promises(now.channels)] if any(c.kept for c in now.channels) else []
    shown = (tables.channels(now.channels, at), *promised, tables.flows(now.flows, at), active)
    show(as_json, serialization.status(now), *shown)


def staleness(
    ctx: typer.Context,
    measure: Annotated[Measure, typer.Option(help="age: how old the newest version is that a table reflects.")] = (
        Measure.STALENESS
    ),
    minutes: Annotated[float, typer.Option(min=0.1, help="So far back, in the JSON document.")] = 60.0,
    as_json: AsJson = False,
) -> None:
    """Show how stale every table is, how stale it was at worst lately, and how old what it reflects."""
    with opened(ctx) as mill:
        found, at = mill.history(), mill.catalog.now()
    since = at - 60 * minutes
    document = serialization.staleness(found, measure, since, at)
    show(as_json, document, tables.staleness(found, since, at), tables.weighted(found, since, at))


def flows(ctx: typer.Context, as_json: AsJson = False) -> None:
    """List the bound flows with their tasks, what these read and write, and their last runs."""
    with opened(ctx) as mill:
        found, now = standing.status(mill.catalog).flows, mill.catalog.now()
    document = {"flows": [serialization.flow(f) for f in found]}
    show(as_json, document, tables.flows(found, now), *([tables.tasks(found)] if found else []))
