"""`linear-road`: the benchmark of event streams in real time."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from benchmarks.linear_road import measure as kernel
from benchmarks.linear_road import rating
from benchmarks.linear_road.traffic import Plan
from benchmarks.scratch import scratch
from tidemill.cli.command import AsJson
from tidemill.cli.output import build_table, print_message, show_answer, write_output

File = Annotated[Path | None, typer.Option(exists=True, dir_okay=False, help="Position reports and queries, as CSV.")]


def linear_road(
    expressways: Annotated[
        float, typer.Option("--expressways", "-L", min=0.5, help="Number of expressways, in steps of 0.5.")
    ] = 1.0,
    seconds: Annotated[int, typer.Option(min=1, help="Duration; the full benchmark takes 10,800.")] = 600,
    start: Annotated[int, typer.Option(min=0, help="First second; later ones have more traffic.")] = 0,
    seed: Annotated[int, typer.Option(help="Seed of the traffic.")] = 1,
    input: File = None,
    history: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="Tolls of past days, as CSV.")
    ] = None,
    output: Annotated[Path | None, typer.Option(dir_okay=False, help="Write the answers here, as CSV.")] = None,
    plot: Annotated[Path | None, typer.Option(dir_okay=False, help="Draw response times into this SVG file.")] = None,
    policy: Annotated[
        list[str] | None,
        typer.Option("--policy", help="Run two flows on one track with this policy of the dispatcher; repeatable."),
    ] = None,
    rate: Annotated[
        bool, typer.Option("--rate", help="Search the largest number of expressways that passes, starting at -L.")
    ] = False,
    check: Annotated[bool, typer.Option(help="Validate the answers.")] = True,
    as_json: AsJson = False,
) -> None:
    """Linear Road in real time: response times, and correctness of all answers."""
    with scratch() as directory:
        plan = Plan(expressways=expressways, seconds=seconds, start=start, seed=seed)
        files = rating.Files(input=input, history=history, output=output, plot=plot)
        if rate:
            document = rating.rate(directory, plan=plan, on_progress=print_message)
        elif policy:
            document = rating.compare(directory, policies=policy, plan=plan, files=files, on_progress=print_message)
        else:
            document = rating.measure(directory, plan=plan, files=files, check=check, on_progress=print_message)
    if as_json:
        write_output(json.dumps(document) + "\n")
    elif rate:
        tries = [[t["expressways"], t["verdict"], t["under_2_s"]] for t in document["tries"]]
        show_answer(False, document, build_table("", (">expressways", "verdict", ">under 2 s"), tries))
        write_output(f"\nL-rating over {seconds} s from second {start}: {document['rating']:g}\n")
    elif policy:
        _show_policies(document)
    else:
        _show_summary(document)


def linear_road_kernel(
    expressways: Annotated[
        list[float] | None,
        typer.Option(help="Number of expressways; repeatable; default: 1 and 4."),
    ] = None,
    seconds: Annotated[int, typer.Option(min=1, help="Duration.")] = 180,
    start: Annotated[int, typer.Option(min=0, help="First second; later ones have more traffic.")] = 10_200,
    seed: Annotated[int, typer.Option(help="Seed of the traffic.")] = 1,
    batch: Annotated[int, typer.Option(min=1, help="Seconds of traffic in a batch.")] = 1,
    check: Annotated[bool, typer.Option(help="Validate the answers.")] = True,
    as_json: AsJson = False,
) -> None:
    """Cost of Linear Road's kernel without Spark: per batch, and per thousand reports."""
    plan = Plan(seconds=seconds, start=start, seed=seed)
    with scratch() as directory:
        sizes = tuple(expressways or (1.0, 4.0))
        document = kernel.measure(
            directory, plan=plan, batch=batch, sizes=sizes, check=check, on_progress=print_message
        )
    write_output(json.dumps(document, indent=None if as_json else 2) + "\n")


def _show_policies(document: Mapping[str, Any]) -> None:
    """Print median and 99th percentile of the response times of both flows."""
    heads = ("policy", ">tolls p50", ">tolls p99", ">expenditures p50", ">expenditures p99", "verdict")
    kinds = [(kind, share) for kind in ("tolls", "expenditures") for share in ("p50", "p99")]
    rows = [
        [p["policy"], *(p["response_s"][kind].get(share, "–") for kind, share in kinds), p["verdict"]]
        for p in document["policies"]
    ]
    show_answer(False, dict(document), build_table("Response times in seconds, by policy", heads, rows))


def _show_summary(document: Mapping[str, Any]) -> None:
    names = ("count", "p50", "p90", "p99", "p100")
    rows = [[kind, *(figures.get(n, "–") for n in names)] for kind, figures in document["response_s"].items()]
    costs = [[part, *(figures.get(n, "–") for n in names)] for part, figures in document["batch_ms"].items()]
    heads = tuple(f">{n}" for n in names)
    show_answer(
        False,
        dict(document),
        build_table("Response times in seconds", ("answers", *heads), rows),
        build_table("Cost of a batch in milliseconds", ("part", *heads), costs),
    )
    write_output(f"\n{document['under_2_s']:.2%} of the answers within 2 s; verdict: {document['verdict']}\n")
