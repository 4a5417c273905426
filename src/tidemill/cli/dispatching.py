"""`dispatching` and `statistics`: the order of due runs, and the statistics that decide it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from tidemill.cli import tables
from tidemill.cli.options import AsJson, open_project
from tidemill.cli.output import build_fields, show_answer
from tidemill.runtime.inspect.statistics import compute_statistics as found_of
from tidemill.runtime.inspect.status import read_status


def register_commands(app: typer.Typer) -> None:
    app.command()(dispatching)
    app.command()(statistics)


def dispatching(
    ctx: typer.Context,
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
    as_json: AsJson = False,
) -> None:
    """Show the order in which servers start runs, or change it while they run; it takes effect within seconds."""
    options = {
        "policy": policy,
        "placement": placement,
        "inheritance": inheritance,
        "tracks": tracks,
        "backfill_tracks": backfill_tracks,
        "catch_up_limit": catch_up_limit,
    }
    with open_project(ctx) as mill:
        changes = {name: value for name, value in options.items() if value is not None}
        overrides = (
            {} if reset else {**mill.dispatch_config.select_overrides(mill.catalog.read_setting_overrides()), **changes}
        )
        config = mill.dispatch_config.apply_overrides(overrides)
        if reset or changes:
            mill.catalog.override_settings(dict.fromkeys(options) | overrides)
    document = asdict(config) | {"overrides": overrides}
    show_answer(
        as_json,
        document,
        build_fields([(name.replace("_", " "), str(value)) for name, value in asdict(config).items()]),
    )


def statistics(ctx: typer.Context, as_json: AsJson = False) -> None:
    """Show for each task the cost of a run, its selectivity, its rates, and its pending blocks."""
    with open_project(ctx) as mill:
        task_statistics = found_of(mill.catalog, read_status(mill.catalog))
    show_answer(as_json, {"tasks": [asdict(s) for s in task_statistics]}, tables.render_statistics(task_statistics))
