"""The search workflow kept fresh by a live server in four modes: synchronous or not, incremental or in batch.

Its clock is compressed: a day takes a minute, and a crawl and clicks arrive every hour. Pages must be ranked at once;
what they are ranked by may be a day behind.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow.parquet as pq

import tidemill as tm
from benchmarks.cost import measured
from benchmarks.refresh import project, served
from benchmarks.search import CLICKS, INPUTS, PAGES, RANKED, SCORES, Web
from tidemill.app.settings import PlannerSettings, Settings
from tidemill.app.wiring import Tidemill
from tidemill.model.block import Block
from tidemill.model.run import RunKind, RunState
from tidemill.model.time import Timeline
from tidemill.planner.catalog_state import compute_target_status
from tidemill.ports.catalog import CatalogReader

DAY = 60.0
"""Seconds."""
HOURS = 24

MODES = {
    "Async/Incr": PlannerSettings(),
    "Sync/Incr": PlannerSettings(asynchronous=False),
    "Async/Batch": PlannerSettings(incremental=False),
    "Sync/Batch": PlannerSettings(asynchronous=False, incremental=False),
}
_PATHWAY = ("pages",)
_WARM_UP = 3  # arrivals before the clock starts
_REHEARSAL = 8  # arrivals, on a tenth of the pages: Java compiles what runs often
_PATIENCE = 300.0  # seconds for the last runs


def workflow(day: float) -> tm.Workflow:
    made = tm.Workflow("search")
    made.input("pages", PAGES, key="url")
    made.input("clicks", CLICKS)
    made.sql("scores", SCORES)
    made.sql("ranked", RANKED, target_lag={"pages": 0}, consistency=day)
    return made


def measure(
    directory: Path, *, pages: int, share: float, days: float, day: float = DAY, tell: Callable[[str], None]
) -> dict[str, Any]:
    """For each mode, median seconds from a crawl's arrival until it is ranked, and the CPU seconds of all that ran."""
    for mode in MODES:
        tell(f"{mode}: rehearsed")
        _live(directory / "rehearsal", mode, pages // 10, share, _REHEARSAL, day)
    points = []
    for mode in MODES:
        point = {"mode": mode} | _live(directory / "live", mode, pages, share, round(days * HOURS), day)
        tell(f"{mode}: lag {point['lag']} s, {point['cpu_s']} CPU seconds, {point['runs']} runs")
        points.append(point)
    return {"points": points}


def _live(directory: Path, mode: str, pages: int, share: float, arrivals: int, day: float) -> dict[str, Any]:
    with project(directory / mode.replace("/", "_"), workflow(day), Settings(planner=MODES[mode])) as mill:
        web = Web(mill.engine.spark, pages, share)
        for number in range(_WARM_UP):
            _arrive(mill, web.batch(number))
            mill.run("ranked")
        arriving = [_crawled(mill.directory, web, _WARM_UP + number) for number in range(arrivals)]
        first = mill.catalog.read_channel("ranked").head.seq

        def day_after_day() -> None:
            with served(mill, 1):
                for batch in arriving:
                    began = time.monotonic()
                    _arrive(mill, batch)
                    time.sleep(max(0.0, day / HOURS - (time.monotonic() - began)))
                _settle(mill)

        cost = measured(day_after_day)
        return _checked(mill, first) | {"cpu_s": round(cost.cpu_seconds, 1)}


def _crawled(directory: Path, web: Web, number: int) -> dict[str, Path]:
    """A batch as files by channel, so that of its making nothing is measured."""
    files = {channel: directory / f"{channel}-{number}.parquet" for channel in INPUTS}
    for channel, rows in web.batch(number).items():
        pq.write_table(rows.toArrow(), files[channel])
    return files


def _arrive(mill: Tidemill, batch: Mapping[str, Any]) -> None:
    for channel, rows in batch.items():
        mill.insert(channel, rows)


def _settle(mill: Tidemill) -> None:
    """Wait until nothing is under way and all pages are ranked."""
    deadline = time.monotonic() + _PATIENCE
    newest = mill.catalog.list_versions("pages", 0)[-1]
    while newest not in mill.catalog.read_channel("ranked").head.provenance[_PATHWAY]:
        if time.monotonic() > deadline:
            return
        time.sleep(0.1)


def _checked(mill: Tidemill, since: int) -> dict[str, Any]:
    """From the catalog, after the fact: how long each crawl waited, and whether any block broke a promise."""
    crawls = mill.catalog.list_versions("pages", 0)[_WARM_UP:]
    made = mill.catalog.list_visible_blocks("ranked", since, mill.catalog.read_channel("ranked").head.seq)
    ended = {b.seq: mill.catalog.read_run(b.run).finished for b in made if b.run is not None}
    waits = []
    for version in crawls:
        first = next((b for b in made if min(b.channel_provenance[_PATHWAY], default=0) >= version), None)
        moment = None if first is None else ended.get(first.seq)
        if moment is not None:
            waits.append(moment - version / 1_000_000)
    runs = [r for r in mill.catalog.list_runs(limit=10_000) if r.kind is RunKind.FLOW and r.state is RunState.FINISHED]
    return {
        "lag": round(median(waits), 2),
        "worst_lag": round(max(waits), 2),
        "blocks": len(made),
        "runs": sum(1 for r in runs if r.stats.get("tasks")),
        "broken": len(broken(mill.catalog, "ranked", since)),
        "unranked": len(crawls) - len(waits),
    }


def broken(catalog: CatalogReader, channel: str, since: int = 0) -> list[Block]:
    """From the catalog, after the fact: the blocks of a channel that broke its bound on inconsistency."""
    known = catalog.read_channel(channel)
    made = catalog.list_visible_blocks(channel, since, known.head.seq)
    arrivals = {p[0]: catalog.list_versions(p[0], 0) for b in made for p in b.channel_provenance.pathways}
    newest = max((versions[-1] for versions in arrivals.values()), default=0)
    timeline = Timeline(arrivals, newest + 1)
    return [
        b
        for b in made
        if compute_target_status(known.channel.freshness_target, b.channel_provenance, timeline).is_inconsistent
    ]
