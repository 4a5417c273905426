"""`dispatching` and `statistics`: the order of due runs, and the statistics that decide it."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from tidemill.cli import tables
from tidemill.cli.output import Answer, build_fields
from tidemill.runtime.inspect.statistics import compute_statistics
from tidemill.runtime.inspect.status import read_status
from tidemill.wire.server_schemas import DispatchConfigDocument, StatisticsDocument

if TYPE_CHECKING:
    from tidemill.app.wiring import Tidemill


def dispatching(
    mill: Tidemill,
    policy: Annotated[str | None, typer.Option(help="The scheduling policy: max-benefit, edf, first-come, …")] = None,
    placement: Annotated[str | None, typer.Option(help="On which tracks: proportional, partitioned, single, …")] = None,
    inheritance: Annotated[str | None, typer.Option(help="Priority of sources: none, sum, max, max-plus.")] = None,
    tracks: Annotated[int | None, typer.Option(min=1, max=64, help="Concurrent runs, on each server.")] = None,
    backfill_tracks: Annotated[
        int | None, typer.Option("--backfill-tracks", min=1, max=64, help="Concurrent backfills, on each server.")
    ] = None,
    catch_up_limit: Annotated[
        float | None,
        typer.Option(
            "--catch-up-limit", min=0, help="Periods of data that a run loads at most; 0 for all pending data."
        ),
    ] = None,
    reset: Annotated[bool, typer.Option("--reset", help="Return to each server's settings.")] = False,
) -> Answer:
    """Show the order in which servers start runs, or change it while they run; it takes effect within seconds."""
    options = {
        "policy": policy,
        "placement": placement,
        "inheritance": inheritance,
        "tracks": tracks,
        "backfill_tracks": backfill_tracks,
        "catch_up_limit": catch_up_limit,
    }
    changes = {name: value for name, value in options.items() if value is not None}
    overrides = (
        {}
        if reset
        else {**mill.dispatch_config.select_overrides(mill.catalog.servers.read_setting_overrides()), **changes}
    )
    config = mill.dispatch_config.apply_overrides(overrides)
    if reset or changes:
        mill.catalog.servers.override_settings(dict.fromkeys(options) | overrides)
    document = DispatchConfigDocument.build(**asdict(config), overrides=overrides)
    return Answer(document, build_fields([(name.replace("_", " "), str(v)) for name, v in asdict(config).items()]))


def statistics(mill: Tidemill) -> Answer:
    """Show for each task the cost of a run, its selectivity, its rates, and its pending blocks."""
    task_statistics = compute_statistics(mill.catalog, read_status(mill.catalog))
    return Answer(StatisticsDocument.build(tasks=task_statistics), tables.render_statistics(task_statistics))
