"""The search workflow on a live server in four modes: synchronous or asynchronous, incremental or batch.

The clock is compressed: a day takes a minute, and a crawl and clicks arrive every hour. Pages must be ranked
immediately; the scores that they are ranked by may be a day old.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow.parquet as pq

import tidemill as tm
from benchmarks.cost import measure_cost
from benchmarks.refresh import open_project, run_server
from benchmarks.search import CLICKS, INPUTS, PAGES, RANKED, SCORES, Web
from tidemill.app.settings import PlannerSettings, Settings
from tidemill.app.wiring import Tidemill
from tidemill.model.block import Block
from tidemill.model.run import RunKind, RunState
from tidemill.model.time import Timeline
from tidemill.planner.catalog_state import compute_target_status
from tidemill.ports.catalog import CatalogReader

DAY = 60.0
"""Seconds of a simulated day."""
HOURS = 24

MODES = {
    "Async/Incr": PlannerSettings(),
    "Sync/Incr": PlannerSettings(asynchronous=False),
    "Async/Batch": PlannerSettings(incremental=False),
    "Sync/Batch": PlannerSettings(asynchronous=False, incremental=False),
}
_PATHWAY = ("pages",)
_WARM_UP = 3  # arrivals before the clock starts
_REHEARSAL = 8  # arrivals on a tenth of the pages, while Java compiles hot code
_PATIENCE = 300.0  # seconds for the last runs


def build_workflow(day: float) -> tm.Workflow:
    spec = tm.Workflow("search")
    spec.input("pages", PAGES, key="url")
    spec.input("clicks", CLICKS)
    spec.sql("scores", SCORES)
    spec.sql("ranked", RANKED, target_lag={"pages": 0}, consistency=day)
    return spec


def measure(
    directory: Path, *, pages: int, share: float, days: float, day: float = DAY, on_progress: Callable[[str], None]
) -> dict[str, Any]:
    """For each mode, the median seconds from a crawl's arrival to its ranking, and the CPU seconds of all runs."""
    for mode in MODES:
        on_progress(f"{mode}: rehearsal")
        _run_live(directory / "rehearsal", mode, pages // 10, share, _REHEARSAL, day)
    points = []
    for mode in MODES:
        point = {"mode": mode} | _run_live(directory / "live", mode, pages, share, round(days * HOURS), day)
        on_progress(f"{mode}: lag {point['lag']} s, {point['cpu_s']} CPU seconds, {point['runs']} runs")
        points.append(point)
    return {"points": points}


def _run_live(directory: Path, mode: str, pages: int, share: float, arrivals: int, day: float) -> dict[str, Any]:
    with open_project(directory / mode.replace("/", "_"), build_workflow(day), Settings(planner=MODES[mode])) as mill:
        web = Web(mill.spark, pages, share)
        for number in range(_WARM_UP):
            _insert_batch(mill, web.create_batch(number))
            mill.run("ranked")
        batches = [_write_batch(mill.directory, web, _WARM_UP + number) for number in range(arrivals)]
        first = mill.catalog.channels.read("ranked").head.seq

        def run_days() -> None:
            with run_server(mill, 1):
                for batch in batches:
                    began = time.monotonic()
                    _insert_batch(mill, batch)
                    time.sleep(max(0.0, day / HOURS - (time.monotonic() - began)))
                _wait_until_ranked(mill)

        cost = measure_cost(run_days)
        return _measure_lag(mill, first) | {"cpu_s": round(cost.cpu_seconds, 1)}


def _write_batch(directory: Path, web: Web, number: int) -> dict[str, Path]:
    """Write a batch to one file for each channel, so that its generation is not measured."""
    files = {channel: directory / f"{channel}-{number}.parquet" for channel in INPUTS}
    for channel, rows in web.create_batch(number).items():
        pq.write_table(rows.toArrow(), files[channel])
    return files


def _insert_batch(mill: Tidemill, batch: Mapping[str, Any]) -> None:
    for channel, rows in batch.items():
        mill.insert(channel, rows)


def _wait_until_ranked(mill: Tidemill) -> None:
    """Wait until all pages are ranked."""
    deadline = time.monotonic() + _PATIENCE
    newest = mill.catalog.channels.list_versions({"pages": 0})["pages"][-1]
    while newest not in mill.catalog.channels.read("ranked").head.provenance[_PATHWAY]:
        if time.monotonic() > deadline:
            return
        time.sleep(0.1)


def _measure_lag(mill: Tidemill, since: int) -> dict[str, Any]:
    """Read from the catalog how long each crawl waited, and how many blocks missed the consistency target."""
    crawls = mill.catalog.channels.list_versions({"pages": 0})["pages"][_WARM_UP:]
    blocks = mill.catalog.blocks.list_visible("ranked", since, mill.catalog.channels.read("ranked").head.seq)
    finished = {b.seq: mill.catalog.runs.read(b.run).finished for b in blocks if b.run is not None}
    waits = []
    for version in crawls:
        first = next((b for b in blocks if min(b.channel_provenance[_PATHWAY], default=0) >= version), None)
        ranked_at = None if first is None else finished.get(first.seq)
        if ranked_at is not None:
            waits.append(ranked_at - version / 1_000_000)
    runs = [r for r in mill.catalog.runs.list(limit=10_000) if r.kind is RunKind.FLOW and r.state is RunState.FINISHED]
    return {
        "lag": round(median(waits), 2),
        "worst_lag": round(max(waits), 2),
        "blocks": len(blocks),
        "runs": sum(1 for r in runs if r.stats.get("tasks")),
        "broken": len(find_inconsistent_blocks(mill.catalog, "ranked", since)),
        "unranked": len(crawls) - len(waits),
    }


def find_inconsistent_blocks(catalog: CatalogReader, channel: str, since: int = 0) -> list[Block]:
    """Read from the catalog the blocks of a channel that exceed its bound on inconsistency."""
    state = catalog.channels.read(channel)
    blocks = catalog.blocks.list_visible(channel, since, state.head.seq)
    inputs = {path[0] for b in blocks for path in b.channel_provenance.pathways}
    arrivals = catalog.channels.list_versions(dict.fromkeys(inputs, 0))
    newest = max((versions[-1] for versions in arrivals.values()), default=0)
    timeline = Timeline(arrivals, newest + 1)
    return [
        b
        for b in blocks
        if compute_target_status(state.channel.freshness_target, b.channel_provenance, timeline).is_inconsistent
    ]
