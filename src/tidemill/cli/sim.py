"""`sim`: simulations in virtual time."""

import json
import tomllib
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from tidemill.cli import lazy_imports
from tidemill.cli.command import open_project
from tidemill.cli.output import Answer, build_fields, build_table, print_message
from tidemill.errors import ConfigError
from tidemill.ports.catalog import CatalogReader
from tidemill.runtime.inspect.replay_record import build_replay_records
from tidemill.sim.chart import render_line_chart
from tidemill.sim.staleness.replay import replay_policies
from tidemill.sim.staleness.sizing import TrackSizing, size_tracks
from tidemill.sim.staleness.workload_file import parse_workload
from tidemill.wire.command_schemas import TrackSizingDocument


def policies(
    ctx: typer.Context,
    tracks: Annotated[int, typer.Option(min=1, help="Concurrent runs.")] = 2,
    hours: Annotated[float, typer.Option(min=0.01, help="Hours of history to replay.")] = 24.0,
    catalog: Annotated[str | None, typer.Option(help="The catalog's URL; default: the project's catalog.")] = None,
) -> Answer:
    """Replay the recorded workload under other policies: how stale tables would have been on average."""
    with _open_catalog(ctx, catalog) as reader:
        results = replay_policies(build_replay_records(reader, reader.read_time() - 3600 * hours), tracks)
    document = {
        "tracks": tracks,
        "configs": [{"config": r.name, "staleness": r.staleness, "tables": r.tables} for r in results],
    }
    rows = ([r.name, f"{r.staleness:.4g}"] for r in results)
    return Answer(document, build_table("weighted staleness, in seconds", ("policy, placement", ">staleness"), rows))


@contextmanager
def _open_catalog(ctx: typer.Context, url: str | None) -> Iterator[CatalogReader]:
    if url is None:
        with open_project(ctx) as mill:
            yield mill.catalog
        return
    with closing(lazy_imports.open_catalog(url, existing=True)) as catalog:
        yield catalog


def staleness(
    workload: Annotated[Path, typer.Option(exists=True, dir_okay=False, help="Your own tables, as TOML or JSON.")],
    events: Annotated[int, typer.Option(min=100, help="Events of each simulation.")] = 100_000,
    seeds: Annotated[int, typer.Option(min=1, help="Number of simulations; the mean is shown.")] = 1,
    plot: Annotated[Path | None, typer.Option(dir_okay=False, help="Draw the curves to this SVG file.")] = None,
) -> Answer:
    """Estimate the staleness of your tables on the given tracks, and on more or fewer.

    Lateness is weighted staleness in multiples of that with a track for every table.
    """
    return _show_sizing(size_tracks(parse_workload(_load_workload(workload)), events, range(1, seeds + 1)), plot)


def _show_sizing(sizing: TrackSizing, plot: Path | None) -> Answer:
    request = sizing.workload_file
    if plot is not None:
        points = [(float(tracks), lateness) for tracks, lateness in sizing.lateness.items()]
        lines = {request.config.policy: points}
        plot.write_text(render_line_chart("Lateness by tracks", "tracks", "lateness", lines), encoding="utf-8")
        print_message(f"wrote {plot}")
    summary = build_fields(
        [
            ("policy", f"{request.config.policy} on {request.workload.tracks} tracks, {request.config.placement}"),
            ("load", f"{request.workload.load:.0%} if nothing is ever late"),
            ("busy", f"{sizing.busy_share:.0%} of the tracks' time"),
        ]
    )
    tables = ([t.table, _format_figure(t.staleness), _format_figure(t.best), f"{t.runs:.0f}"] for t in sizing.tables)
    tracks = [[n, _format_figure(lateness)] for n, lateness in sizing.lateness.items()]
    return Answer(
        TrackSizingDocument.model_validate(sizing),
        summary,
        build_table("Staleness on average, in seconds", ("table", ">staleness", ">at best", ">runs"), tables),
        build_table("On other numbers of tracks", (">tracks", ">lateness"), tracks),
    )


def _load_workload(path: Path) -> dict[str, Any]:
    text = path.read_text(encoding="utf-8")
    try:
        document = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except ValueError as error:  # of either parser
        raise ConfigError(f"{path} is neither TOML nor, with the suffix .json, JSON: {error}") from error
    if not isinstance(document, dict):
        raise ConfigError(f"{path}: expected tables by name, found {type(document).__name__}")
    return document


def _format_figure(value: float | None) -> str:
    return "–" if value is None else f"{value:.4g}"
