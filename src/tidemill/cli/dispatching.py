"""`dispatching` and `statistics`: which of the runs that are due go first, and what that is decided by."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from tidemill.cli import tables
from tidemill.cli.options import AsJson, opened
from tidemill.cli.output import build_fields, show_answer
from tidemill.runtime.inspect.statistics import compute_statistics as found_of
from tidemill.runtime.inspect.status import read_status


def register_commands(app: typer.Typer) -> None:
    app.command()(dispatching)
    app.command()(statistics)


def dispatching(
    ctx: typer.Context,
    policy: Annotated[str | None, typer.Option(help="Who goes first: max-benefit, edf, first-come, …")] = None,
    placement: Annotated[str | None, typer.Option(help="On which tracks: proportional, partitioned, single, …")] = None,
    inheritance: Annotated[str | None, typer.Option(help="What sources count for: none, sum, max, max-plus.")] = None,
    tracks: Annotated[int | None, typer.Option(min=1, max=64, help="Runs at the same time, on each server.")] = None,
    backfill_tracks: Annotated[
        int | None, typer.Option("--backfill-tracks", min=1, max=64, help="Backfills besides, on each server.")
    ] = None,
    chop: Annotated[
        float | None, typer.Option(min=0, help="Periods of data that a run loads at most; 0 for all that waits.")
    ] = None,
    reset: Annotated[bool, typer.Option("--reset", help="Go back to what each server's settings say.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show how servers choose what runs first, or change it while they run; they heed it within seconds."""
    given = {
        "policy": policy,
        "placement": placement,
        "inheritance": inheritance,
        "tracks": tracks,
        "backfill_tracks": backfill_tracks,
        "chop": chop,
    }
    with opened(ctx) as mill:
        wanted = {name: value for name, value in given.items() if value is not None}
        wished = {} if reset else {**mill.way.select_overrides(mill.catalog.read_setting_overrides()), **wanted}
        way = mill.way.apply_overrides(wished)
        if reset or wanted:
            mill.catalog.override_settings(dict.fromkeys(given) | wished)
    document = asdict(way) | {"wished": wished}
    show_answer(
        as_json, document, build_fields([(name.replace("_", " "), str(value)) for name, value in asdict(way).items()])
    )


def statistics(ctx: typer.Context, as_json: AsJson = False) -> None:
    """Show for each task what a run costs, how much it makes of what it reads, its rates, and what waits for it."""
    with opened(ctx) as mill:
        found = found_of(mill.catalog, read_status(mill.catalog))
    show_answer(as_json, {"tasks": [asdict(s) for s in found]}, tables.render_statistics(found))
