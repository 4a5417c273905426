"""Commands that measure a server under load: many inserts, many tables, a long history, many refreshes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from benchmarks.endurance import measure as measure_endurance
from benchmarks.goals import exit_unless_held
from benchmarks.large_catalog import measure as measure_large_catalog
from benchmarks.load import measure as measure_load
from benchmarks.many_tables import measure as measure_many_tables
from benchmarks.scratch import scratch
from tidemill.cli.command import AsJson
from tidemill.cli.output import build_fields, print_message, show_answer, write_output


def load(
    rate: Annotated[int, typer.Option(min=1, help="Inserts a second, of a few rows each.")] = 200,
    seconds: Annotated[int, typer.Option(min=1, help="Duration.")] = 600,
    streams: Annotated[int, typer.Option(min=0, help="Clients that read the event stream.")] = 0,
    subscribers: Annotated[int, typer.Option(min=0, help="Clients that receive the rows of every block.")] = 50,
    as_json: AsJson = False,
) -> None:
    """Small inserts over the API at a steady rate, with followers, a table refreshed by the server, and maintenance."""
    with scratch() as directory:
        document = measure_load(
            directory,
            rate=rate,
            seconds=seconds,
            streams=streams,
            subscribers=subscribers,
            on_progress=print_message,
        )
    _show_document(as_json, document)


def large_catalog(
    tables: Annotated[int, typer.Option(min=1, help="Tables whose status is shown.")] = 2000,
    runs: Annotated[int, typer.Option(min=1, help="Runs in the history of the server that is started.")] = 100_000,
    rounds: Annotated[int, typer.Option(min=1, help="Timings of each figure; medians count.")] = 3,
    as_json: AsJson = False,
) -> None:
    """The status, the page and the start of a server with many tables and a long history."""
    with scratch() as directory:
        document = measure_large_catalog(directory, tables=tables, runs=runs, rounds=rounds, on_progress=print_message)
    _show_document(as_json, document)


def many_tables(
    tables: Annotated[int, typer.Option(min=1, help="Tables with a freshness target.")] = 1000,
    minutes: Annotated[float, typer.Option(min=0.1, help="Duration after the warm-up.")] = 30.0,
    lag_minutes: Annotated[float, typer.Option(min=0.1, help="The target lag of each table; also the warm-up.")] = 10.0,
    as_json: AsJson = False,
) -> None:
    """Whether one server with Spark keeps the freshness targets of many tables."""
    with scratch() as directory:
        document = measure_many_tables(
            directory, tables=tables, minutes=minutes, lag_minutes=lag_minutes, on_progress=print_message
        )
    _show_document(as_json, document)


def endurance(
    refreshes: Annotated[int, typer.Option(min=8, help="Refreshes of three tables.")] = 2000,
    every: Annotated[int, typer.Option(min=1, help="Refreshes between two samples of the memory.")] = 20,
    chart: Annotated[Path | None, typer.Option(help="Write the curves to this SVG file.")] = None,
    as_json: AsJson = False,
) -> None:
    """Whether the memory of server, workers and JVMs grows over many refreshes."""
    with scratch() as directory:
        document = measure_endurance(
            directory, refreshes=refreshes, every=every, chart=chart, on_progress=print_message
        )
    _show_document(as_json, document)


COMMANDS = (load, large_catalog, many_tables, endurance)


def _show_document(as_json: bool, document: dict[str, Any]) -> None:
    """Show the JSON document on one line, or its figures and the verdict on each goal."""
    figures = [(name, value) for name, value in document.items() if not isinstance(value, list)]
    verdicts = [(f"holds: {g['holds']}", f"{g['claim']} ({g['rule']})") for g in document["goals"]]
    if as_json:
        write_output(json.dumps(document) + "\n")
    else:
        show_answer(False, document, build_fields([*figures, *verdicts]))
    exit_unless_held(document)
