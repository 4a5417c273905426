"""One command for each measurement of Tidemill on this machine; most figures are ratios within one run."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from benchmarks.choices import measure as measure_choices
from benchmarks.claims import report_changes
from benchmarks.dispatch import measure as measure_dispatch
from benchmarks.goals import exit_unless_held
from benchmarks.growth import measure as measure_growth
from benchmarks.incremental import measure as measure_incremental
from benchmarks.isolation import measure as measure_isolation
from benchmarks.join import measure as measure_join
from benchmarks.keyed import measure as measure_keyed
from benchmarks.merge import measure as measure_merge
from benchmarks.modes import measure as measure_modes
from benchmarks.overhead import measure as measure_overhead
from benchmarks.planner import measure as measure_planner
from benchmarks.push import measure as measure_push
from benchmarks.queries import measure as measure_queries
from benchmarks.scratch import scratch
from benchmarks.staleness import measure as measure_staleness
from benchmarks.storage import measure as measure_storage
from benchmarks.tick import measure as measure_tick
from benchmarks.together import measure as measure_together
from benchmarks.windows import measure as measure_windows
from tidemill.app.settings import EngineSettings, Settings
from tidemill.cli.command import AsJson
from tidemill.cli.output import build_table, print_message, show_answer, write_output
from tidemill.spark.session import start_session

Rounds = Annotated[int, typer.Option(min=1, help="Number of timings of each variant; medians are compared.")]

KEYED_ROWS = "1000,16000,64000,250000,1000000"


def overhead(
    rows: Annotated[int, typer.Option(min=1, help="Rows that both variants process.")] = 1_000_000,
    blocks: Annotated[int, typer.Option(min=0, help="Other blocks in the catalog.")] = 100_000,
    rounds: Rounds = 9,
    catalog: Annotated[str | None, typer.Option(help="The catalog's URL; default: a new SQLite file.")] = None,
    as_json: AsJson = False,
) -> None:
    """A Tidemill run against the same code in plain PySpark."""
    with scratch() as directory:
        point = measure_overhead(
            directory, rows=rows, blocks=blocks, rounds=rounds, catalog_url=catalog, on_progress=print_message
        )
    _show_points(as_json, point, [point])


def isolation(
    rows: Annotated[int, typer.Option(min=1000, help="Rows of the table's input.")] = 1_000_000,
    share: Annotated[float, typer.Option(min=0, max=1, help="Share of rows inserted before each refresh.")] = 0.001,
    rounds: Rounds = 15,
    connect: Annotated[bool, typer.Option("--connect", help="Use Spark Connect; needs the extra 'connect'.")] = False,
    as_json: AsJson = False,
) -> None:
    """A run in a worker process of a server against the same run in this process."""
    with scratch() as directory:
        point = measure_isolation(
            directory, rows=rows, share=share, rounds=rounds, connect=connect, on_progress=print_message
        )
    _show_points(as_json, point, [point])
    exit_unless_held(point)


def together(
    tables: Annotated[int, typer.Option(min=2, help="Tables that read the same input.")] = 5,
    rows: Annotated[int, typer.Option(min=1, help="Rows of each insert, after which all tables are refreshed.")] = 1000,
    rounds: Rounds = 9,
    as_json: AsJson = False,
) -> None:
    """One run for several tables against a run for each."""
    with scratch() as directory:
        point = measure_together(directory, tables=tables, rows=rows, rounds=rounds, on_progress=print_message)
    _show_points(as_json, point, [point])


def tick(
    tables: Annotated[int, typer.Option(min=1, help="Idle tables, each with a trigger.")] = 10_000,
    catalog: Annotated[str | None, typer.Option(help="The catalog's URL; default: a new SQLite file.")] = None,
    as_json: AsJson = False,
) -> None:
    """One poll of the catalog by a server when nothing is due."""
    with scratch() as directory:
        point = measure_tick(directory, tables=tables, catalog_url=catalog, on_progress=print_message)
    _show_points(as_json, point, [point])


def push(
    producers: Annotated[int, typer.Option(min=1, help="Processes that push, each over one websocket.")] = 20,
    rate: Annotated[float, typer.Option(min=1, help="Events per second of all producers together.")] = 5000.0,
    seconds: Annotated[float, typer.Option(min=1, help="Duration.")] = 60.0,
    kill: Annotated[bool, typer.Option("--kill", help="Kill producers and the server during the measurement.")] = False,
    as_json: AsJson = False,
) -> None:
    """Small events over websockets at a steady rate: the time until they are durable, and lost or duplicate events."""
    with scratch() as directory:
        point = measure_push(
            directory, producers=producers, rate=rate, seconds=seconds, kill=kill, on_progress=print_message
        )
    _show_points(as_json, point, [point])


def modes(
    pages: Annotated[int, typer.Option(min=100, help="Pages of the first crawl; five times as many clicks.")] = 200_000,
    share: Annotated[float, typer.Option(min=1e-6, max=1.0, help="The share that arrives every hour.")] = 0.002,
    days: Annotated[float, typer.Option(min=0.1, help="Simulated days; a day takes a minute.")] = 2.0,
    as_json: AsJson = False,
) -> None:
    """A live server that refreshes ranked pages in four modes: staleness and cost."""
    with scratch() as directory:
        document = measure_modes(directory, pages=pages, share=share, days=days, on_progress=print_message)
    _show_points(as_json, document, document["points"])


def staleness(
    seconds: Annotated[float, typer.Option(min=5, help="Seconds of each turn of a policy.")] = 30.0,
    turns: Annotated[int, typer.Option(min=1, help="Turns of each policy.")] = 2,
    tracks: Annotated[int, typer.Option(min=1, max=16, help="Concurrent runs.")] = 2,
    heavy: Annotated[int, typer.Option(min=100, help="Rows that each slow table reads.")] = 5000,
    as_json: AsJson = False,
) -> None:
    """Weighted staleness of a live server under Max Benefit and first-come, against the simulator's prediction.

    The exit code is 1 if a verdict on a measurement of the default size differs from the declared one.
    """
    with scratch() as directory:
        document = measure_staleness(
            directory, seconds=seconds, turns=turns, tracks=tracks, heavy=heavy, on_progress=print_message
        )
    _show_points(as_json, document, document["points"])
    if not as_json:
        separate = ("points", "parameters", "claims")
        write_output("".join(f"{name}: {value}\n" for name, value in document.items() if name not in separate))
        write_output("".join(f"{name}: {value}\n" for name, value in document["parameters"].items()))
        write_output("".join(f"holds: {c['holds']}: {c['claim']}. Rule: {c['rule']}\n" for c in document["claims"]))
    report_changes(document["unexpected"], as_declared=(seconds, turns, tracks, heavy) == (30.0, 2, 2, 5000))


def choices(
    rows: Annotated[int, typer.Option(min=100, help="Rows of the first batch.")] = 500_000,
    rounds: Annotated[int, typer.Option(min=1, help="Repetitions of each size of change.")] = 1,
    as_json: AsJson = False,
) -> None:
    """Whether the chosen refresh mode is the fastest one, over queries and sizes of change."""
    with scratch() as directory:
        document = measure_choices(directory, rows=rows, rounds=rounds, on_progress=print_message)
    _show_points(as_json, document, document["points"])
    if not as_json:
        for name, figures in (("all", document), ("unseen", document["unseen"])):
            right, lost = f"{figures['right']:.1%}", f"{figures['lost']:.1%}"
            write_output(f"\n{name}: {right} of {figures['cases']} choices were right; {lost} lost\n")


def planner(rounds: Rounds = 5, as_json: AsJson = False) -> None:
    """The cost of planning: one call as channels and arrivals grow (`workflows` simulates ten weeks of calls)."""
    document = measure_planner(rounds=rounds, on_progress=print_message)
    if as_json:
        write_output(json.dumps(document) + "\n")
        return
    tables = ("by_channels", "by_blocks", "by_table")
    write_output("\n".join(_format_markdown(document[name]) for name in tables))


def dispatch(
    events: Annotated[int, typer.Option(min=1000, help="Events of 30 jobs in virtual time.")] = 1_000_000,
    tables: Annotated[int, typer.Option(min=1, help="Live tables of one decision.")] = 10_000,
    rounds: Rounds = 3,
    as_json: AsJson = False,
) -> None:
    """The cost of dispatching: a simulation of many events, and one decision among many tables."""
    document = measure_dispatch(events=events, tables=tables, rounds=rounds, on_progress=print_message)
    if as_json:
        write_output(json.dumps(document) + "\n")
        return
    write_output(_format_markdown(document["simulations"]) + "\n" + _format_markdown(document["decisions"]))


def merge(
    large: Annotated[int, typer.Option(min=1, help="Rows of a large block.")] = 100_000,
    small: Annotated[int, typer.Option(min=1, help="Rows of a small block.")] = 1_000,
    rounds: Rounds = 3,
    as_json: AsJson = False,
) -> None:
    """Reading and writing one compacted block, against merging 1 to 20 blocks by two methods."""
    with scratch() as directory:
        points = measure_merge(
            directory, rounds=rounds, sizes={"large": large, "small": small}, on_progress=print_message
        )
    _show_points(as_json, {"points": points}, points)


def incremental(
    pages: Annotated[int, typer.Option(min=100, help="Pages of the first crawl; five times as many clicks.")] = 200_000,
    delta: Annotated[float, typer.Option(min=1e-6, max=1.0, help="The share that each delta changes.")] = 0.001,
    rounds: Rounds = 5,
    warm_up: Annotated[
        int, typer.Option(min=0, help="Refreshes before the rounds, while Java compiles hot code.")
    ] = 30,
    sustained: Annotated[
        int, typer.Option(min=0, help="Refreshes in a row with default maintenance, for the amortised ratio.")
    ] = 50,
    other_cases: Annotated[bool, typer.Option(help="Also the cold case, and without the local engine.")] = True,
    variant: Annotated[str | None, typer.Option(help="Use this refresh mode instead of Tidemill's choice.")] = None,
    as_json: AsJson = False,
) -> None:
    """Incremental refresh of ranked pages, against recomputation in plain PySpark."""
    with scratch() as directory:
        point = measure_incremental(
            directory,
            pages=pages,
            delta=delta,
            rounds=rounds,
            warm_up=warm_up,
            sustained=sustained,
            other_cases=other_cases,
            variant=variant,
            on_progress=print_message,
        )
    _show_points(as_json, point, [point])


def join(
    rows: Annotated[int, typer.Option(min=1, help="Old rows of either side.")] = 500_000,
    rounds: Rounds = 3,
    as_json: AsJson = False,
) -> None:
    """An incremental join against a full one, from 0.1% to 100% new data."""
    with scratch() as directory:
        document = measure_join(directory, rows=rows, rounds=rounds, on_progress=print_message)
    _show_points(as_json, document, document["points"])
    if not as_json:
        write_output(f"\n{_describe_crossover(document['crossover'])}\n")


def queries(
    scale: Annotated[float, typer.Option(min=0.01, help="The scale of TPC-H; 1 has 1.5 million orders.")] = 0.01,
    only: Annotated[str, typer.Option(help="Numbers of queries, such as 3,5; default: all.")] = "",
    share: Annotated[float, typer.Option(min=1e-6, max=0.5, help="Share of orders that a refresh changes.")] = 0.001,
    forced: Annotated[bool, typer.Option(help="Also refresh with the incremental variant, if there is one.")] = True,
    local: Annotated[bool, typer.Option(help="Let the driver compute where that is cheaper; else Spark alone.")] = True,
    rounds: Rounds = 1,
    as_json: AsJson = False,
) -> None:
    """Refresh of the TPC-H queries while orders are inserted and deleted, against recomputation."""
    numbers = _parse_numbers(only) if only else range(1, 23)
    settings = Settings(engine=EngineSettings(local="auto" if local else "off"))
    with scratch() as directory:
        document = measure_queries(
            directory,
            only=numbers,
            scale=scale,
            share=share,
            forced=forced,
            rounds=rounds,
            settings=settings,
            on_progress=print_message,
        )
    write_output(json.dumps(document) + "\n" if as_json else _format_markdown(document["points"]))


def growth(
    refreshes: Annotated[int, typer.Option(min=4, help="Number of inserts, each followed by a run.")] = 500,
    as_json: AsJson = False,
) -> None:
    """Whether refresh time, files, disk use or the catalog grow over many small refreshes."""
    with scratch() as directory:
        document = measure_growth(directory, refreshes=refreshes, on_progress=print_message)
    _show_points(as_json, document, document["along"])
    if not as_json:
        write_output(_format_markdown(document["measures"]))
        write_output("".join(f"{name}: {value}\n" for name, value in _select_scalars(document).items()))


def storage(
    submissions: Annotated[int, typer.Option(min=10, help="Submitted workflows of each history.")] = 1000,
    seeds: Annotated[int, typer.Option(min=1, help="Histories of each kind.")] = 1,
    datasets: Annotated[int, typer.Option(min=1000, help="Datasets of the timed eviction decision.")] = 100_000,
    as_json: AsJson = False,
) -> None:
    """Computing time with small storage budgets, as a multiple of that with unlimited storage."""
    seed_numbers = range(1, seeds + 1)
    document = measure_storage(
        submissions=submissions, seeds=seed_numbers, datasets=datasets, on_progress=print_message
    )
    points = [{"algorithm": name} | _select_scalars(figures) for name, figures in document["algorithms"].items()]
    _show_points(as_json, document, points)
    if not as_json:
        write_output(
            "".join(f"{name}: {value}\n" for name, value in _select_scalars(document["default"] | document).items())
        )


def windows(as_json: AsJson = False) -> None:
    """The cost of forming windows of rows, for each combination of step and size."""
    points = measure_windows()
    _show_points(as_json, points, points)


def keyed_batch(
    rows: Annotated[str, typer.Option(help="Rows of a batch; several numbers are separated by commas.")] = KEYED_ROWS,
    rounds: Rounds = 7,
    as_json: AsJson = False,
) -> None:
    """A batch of a keyed task on the driver and in Spark's Python workers."""
    sizes = [int(part) for part in rows.split(",")]
    spark = start_session("local[2]")
    try:
        with scratch() as directory:
            points = measure_keyed(directory, spark, sizes=sizes, rounds=rounds)
    finally:
        spark.stop()
    _show_points(as_json, points, points)


COMMANDS = (
    *(overhead, merge, growth, incremental, join, queries, tick, together, push, modes, choices, staleness),
    *(planner, dispatch, storage, windows, isolation),
)


def _select_scalars(document: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in document.items() if not isinstance(value, dict | list)}


def _parse_numbers(text: str) -> list[int]:
    numbers = [int(part) if part.strip().isdigit() else 0 for part in text.split(",")]
    if not all(1 <= number <= 22 for number in numbers):
        raise typer.BadParameter(f"expected numbers from 1 to 22, separated by commas, found {text!r}")
    return sorted(set(numbers))


def _describe_crossover(share: float | None) -> str:
    if share is None:
        return "the joins' times do not cross between 0.1% and 100% new data"
    return f"the full join is the faster one from about {share:.1%} new data"


def _format_markdown(points: Sequence[Mapping[str, Any]]) -> str:
    """Points as a Markdown table."""
    rows = [list(points[0]), ["---"] * len(points[0]), *(list(p.values()) for p in points)]
    return "".join(f"| {' | '.join('–' if v is None else str(v) for v in row)} |\n" for row in rows)


def _show_points(as_json: bool, document: Any, points: list[dict[str, Any]]) -> None:
    if as_json:
        write_output(json.dumps(document) + "\n")
    else:
        headings = [f">{name}" for name in points[0]]
        show_answer(False, document, build_table("", headings, [list(map(str, p.values())) for p in points]))
