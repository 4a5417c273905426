"""`bench`: measurements of this system on this machine, as ratios within one run."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer

from tidemill.cli.deferred import measure_merge, measure_overhead
from tidemill.cli.options import AsJson
from tidemill.cli.output import show, table, tell, write

Rounds = Annotated[int, typer.Option(min=1, help="How often each way is timed; medians are compared.")]


def register(app: typer.Typer) -> None:
    bench = typer.Typer(help="Measure this system on this machine.", no_args_is_help=True)
    bench.command()(overhead)
    bench.command()(merge)
    app.add_typer(bench, name="bench")


def overhead(
    rows: Annotated[int, typer.Option(min=1, help="Rows that both ways process.")] = 1_000_000,
    blocks: Annotated[int, typer.Option(min=0, help="Blocks that the catalog holds besides.")] = 100_000,
    rounds: Rounds = 9,
    catalog: Annotated[str | None, typer.Option(help="The catalog's URL; a fresh SQLite file if left out.")] = None,
    as_json: AsJson = False,
) -> None:
    """A Tidemill run against the same PySpark code by hand."""
    with tempfile.TemporaryDirectory(prefix="tidemill-bench-") as directory:
        point = measure_overhead(
            Path(directory), rows=rows, blocks=blocks, rounds=rounds, catalog_url=catalog, tell=tell
        )
    _print(as_json, point, [point])


def merge(
    large: Annotated[int, typer.Option(min=1, help="Rows of a large block.")] = 100_000,
    small: Annotated[int, typer.Option(min=1, help="Rows of a small block.")] = 1_000,
    rounds: Rounds = 3,
    as_json: AsJson = False,
) -> None:
    """Loading and storing one compacted block, against merging 1 to 20 blocks in two ways."""
    with tempfile.TemporaryDirectory(prefix="tidemill-bench-") as directory:
        points = measure_merge(Path(directory), rounds=rounds, sizes={"large": large, "small": small}, tell=tell)
    _print(as_json, {"points": points}, points)


def _print(as_json: bool, document: dict[str, Any], points: list[dict[str, Any]]) -> None:
    if as_json:
        write(json.dumps(document) + "\n")
    else:
        headings = [f">{name}" for name in points[0]]
        show(False, document, table("", headings, [list(map(str, p.values())) for p in points]))
