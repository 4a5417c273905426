"""`status`, `staleness` and `flows`: the state of the project."""

from __future__ import annotations

from typing import Annotated

import typer

from tidemill.app import serialization
from tidemill.cli import tables
from tidemill.cli.options import AsJson, Every, open_project
from tidemill.cli.output import show_answer
from tidemill.runtime.freshness.staleness import StalenessMeasure
from tidemill.runtime.inspect import status as standing


def register_commands(app: typer.Typer) -> None:
    app.command()(status)
    app.command()(staleness)
    app.command()(flows)


def status(ctx: typer.Context, every: Every = False, as_json: AsJson = False) -> None:
    """Show the freshness of every channel, the lag of consumers, and active runs."""
    with open_project(ctx) as mill:
        project, now = standing.read_status(mill.catalog), mill.catalog.read_time()
    visible = project if every else standing.hide_state_channels(project)
    active = tables.render_runs("active runs", visible.active, now)
    targets = [tables.render_targets(visible.channels)] if any(c.target_status for c in visible.channels) else []
    shown = (tables.render_channels(visible.channels, now), *targets, tables.render_flows(visible.flows, now), active)
    show_answer(as_json, serialization.serialize_status(visible), *shown)


def staleness(
    ctx: typer.Context,
    measure: Annotated[
        StalenessMeasure, typer.Option(help="age: the age of the newest version that a table reflects.")
    ] = (StalenessMeasure.STALENESS),
    minutes: Annotated[float, typer.Option(min=0.1, help="Minutes of history in the JSON document.")] = 60.0,
    as_json: AsJson = False,
) -> None:
    """Show how stale every table is, its recent worst staleness, and the age of the data that it reflects."""
    with open_project(ctx) as mill:
        history, now = mill.history(), mill.catalog.read_time()
    since = now - 60 * minutes
    document = serialization.serialize_staleness(history, measure, since, now)
    show_answer(
        as_json,
        document,
        tables.render_staleness(history, since, now),
        tables.format_weighted_staleness(history, since, now),
    )


def flows(ctx: typer.Context, as_json: AsJson = False) -> None:
    """List the bound flows with their tasks, inputs and outputs, and their last runs."""
    with open_project(ctx) as mill:
        flow_list, now = standing.read_status(mill.catalog).flows, mill.catalog.read_time()
    document = {"flows": [serialization.serialize_flow(f) for f in flow_list]}
    show_answer(
        as_json, document, tables.render_flows(flow_list, now), *([tables.render_tasks(flow_list)] if flow_list else [])
    )
