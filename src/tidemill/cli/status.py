"""`status`, `staleness` and `flows`: the state of the project."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tidemill.app import inspection, serialization
from tidemill.cli import tables
from tidemill.cli.options import Every
from tidemill.cli.output import Answer, render_list
from tidemill.display import columns
from tidemill.runtime.freshness.staleness import StalenessMeasure
from tidemill.runtime.inspect.status import read_status
from tidemill.wire.schemas import FlowListDocument, StatusDocument

if TYPE_CHECKING:
    from tidemill.app.wiring import Tidemill


def status(mill: Tidemill, every: Every = False) -> Answer:
    """Show the freshness of every channel, the lag of consumers, and active runs."""
    visible, now = inspection.read_visible_status(mill.catalog, every=every), mill.catalog.read_time()
    active = render_list("active runs", columns.RUN, visible.active, now)
    targets = [tables.render_targets(visible.channels)] if any(c.target_status for c in visible.channels) else []
    shown = (tables.render_channels(visible.channels, now), *targets, tables.render_flows(visible.flows, now), active)
    return Answer(StatusDocument.model_validate(visible), *shown)


def staleness(
    mill: Tidemill,
    measure: Annotated[
        StalenessMeasure, typer.Option(help="age: the age of the newest version that a table reflects.")
    ] = (StalenessMeasure.STALENESS),
    minutes: Annotated[float, typer.Option(min=0.1, help="Minutes of history in the JSON document.")] = 60.0,
) -> Answer:
    """Show how stale every table is, its recent worst staleness, and the age of the data that it reflects."""
    history, now = mill.history(), mill.catalog.read_time()
    since = now - 60 * minutes
    document = serialization.serialize_staleness(history, measure, since, now)
    return Answer(
        document,
        tables.render_staleness(history, since, now),
        tables.format_weighted_staleness(history, since, now),
    )


def flows(mill: Tidemill) -> Answer:
    """List the bound flows with their tasks, inputs and outputs, and their last runs."""
    flow_list, now = read_status(mill.catalog).flows, mill.catalog.read_time()
    tasks = [tables.render_tasks(flow_list)] if flow_list else []
    return Answer(FlowListDocument.build(flows=flow_list), tables.render_flows(flow_list, now), *tasks)
