"""`status` and `flows`: how everything stands."""

from __future__ import annotations

from typing import Annotated

import typer

from tidemill.app import serialization
from tidemill.cli import tables
from tidemill.cli.options import AsJson, Every, opened
from tidemill.cli.output import show_answer
from tidemill.runtime.freshness.staleness import StalenessMeasure
from tidemill.runtime.inspect import status as standing


def register_commands(app: typer.Typer) -> None:
    app.command()(status)
    app.command()(staleness)
    app.command()(flows)


def status(ctx: typer.Context, every: Every = False, as_json: AsJson = False) -> None:
    """Show how fresh every channel is, who is behind, and what runs."""
    with opened(ctx) as mill:
        found, at = standing.read_status(mill.catalog), mill.catalog.read_time()
    now = found if every else standing.hide_state_channels(found)
    active = tables.render_runs("active runs", now.active, at)
    promised = [tables.render_targets(now.channels)] if any(c.kept for c in now.channels) else []
    shown = (tables.render_channels(now.channels, at), *promised, tables.render_flows(now.flows, at), active)
    show_answer(as_json, serialization.serialize_status(now), *shown)


def staleness(
    ctx: typer.Context,
    measure: Annotated[
        StalenessMeasure, typer.Option(help="age: how old the newest version is that a table reflects.")
    ] = (StalenessMeasure.STALENESS),
    minutes: Annotated[float, typer.Option(min=0.1, help="So far back, in the JSON document.")] = 60.0,
    as_json: AsJson = False,
) -> None:
    """Show how stale every table is, how stale it was at worst lately, and how old what it reflects."""
    with opened(ctx) as mill:
        found, at = mill.history(), mill.catalog.read_time()
    since = at - 60 * minutes
    document = serialization.serialize_staleness(found, measure, since, at)
    show_answer(
        as_json, document, tables.render_staleness(found, since, at), tables.format_weighted_staleness(found, since, at)
    )


def flows(ctx: typer.Context, as_json: AsJson = False) -> None:
    """List the bound flows with their tasks, what these read and write, and their last runs."""
    with opened(ctx) as mill:
        found, now = standing.read_status(mill.catalog).flows, mill.catalog.read_time()
    document = {"flows": [serialization.serialize_flow(f) for f in found]}
    show_answer(as_json, document, tables.render_flows(found, now), *([tables.render_tasks(found)] if found else []))
