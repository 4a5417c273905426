"""`sim`: simulations in virtual time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from tidemill.cli.lazy_imports import open_catalog_at
from tidemill.cli.options import open_project
from tidemill.cli.output import Answer, build_table
from tidemill.ports.catalog import CatalogReader
from tidemill.runtime.inspect.replay_record import build_replay_records
from tidemill.sim.staleness.replay import replay_policies


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
    with open_catalog_at(url) as catalog:
        yield catalog
