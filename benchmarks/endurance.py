"""Memory of a server over thousands of refreshes, by kind of process.

`tidemill up` keeps three tables fresh: two declared ones, which the driver computes incrementally, and one of a PySpark
function, which runs in Spark every time. The content of the inputs does not grow: events are corrected and users move.
Every insert is followed by a refresh of all tables before the next one. The resident memory of the server's process, of
the JVMs and of all other child processes (Python workers) is sampled at intervals; memory that processes share is
counted once for each.

Rule: memory is flat if, for each kind of process, the mean of the last quarter of the samples is at most `GROWTH` times
the mean of the second quarter. The first quarter does not count: caches and the heap of the JVM still fill up.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import psutil  # type: ignore[import-untyped]

from benchmarks.goals import Goal, judge_goals
from benchmarks.server_process import run_server_process, wait_for_tracks, write_project
from tidemill.app.wiring import Tidemill
from tidemill.sim.chart import render_line_chart

GROWTH = 1.1
KINDS = ("server", "workers", "jvm")
GOALS = tuple(
    Goal(f"{kind}_growth", GROWTH, f"the memory of {name} does not grow")
    for kind, name in zip(KINDS, ("the server", "its worker processes", "the JVMs"), strict=True)
)
TABLES = ("totals", "cities", "marked")
EVENTS, MAX_EVENTS, USERS, CITIES = 40, 2000, 500, 20
_POLL_INTERVAL = 0.05
_PATIENCE = 300.0  # seconds for the refreshes that follow an insert

_WORKFLOW = """import tidemill as tm

wf = tm.Workflow("endurance")
wf.input("events", "id bigint, user bigint, amount bigint", key="id")
wf.input("users", "user bigint, city string", key="user")
on_events = [tm.on("events")]
wf.sql("totals", "SELECT user, sum(amount) AS amount FROM events GROUP BY user", triggers=on_events)
wf.sql(
    "cities",
    "SELECT city, sum(amount) AS amount FROM events JOIN users ON events.user = users.user GROUP BY city",
    triggers=on_events,
)


@wf.task(triggers=[tm.on("totals")])
def marked(totals: tm.All) -> tm.Base:
    return totals.where("amount % 2 = 0")
"""


@dataclass(frozen=True, slots=True)
class MemorySample:
    """Resident megabytes of each kind of process after a number of refreshes."""

    refreshes: int
    seconds: float  # since the first refresh
    server: float
    workers: float
    jvm: float


def measure(
    directory: Path, *, refreshes: int, every: int, chart: Path | None, on_progress: Callable[[str], None]
) -> dict[str, Any]:
    """Refresh until there were `refreshes`; `every`: refreshes between two samples; `chart`: a file for the curves."""
    write_project(directory, _WORKFLOW)
    on_progress("starting a server")
    samples: list[MemorySample] = []
    with run_server_process(directory) as process:
        wait_for_tracks(directory, process)
        with Tidemill.open(directory) as mill:
            for sample in _take_samples(mill, directory, psutil.Process(process.pid), refreshes, every):
                samples.append(sample)
                on_progress(_format_sample(sample))
    if chart is not None:
        chart.write_text(render_samples(samples))
    return summarize_samples(samples)


def _format_sample(sample: MemorySample) -> str:
    memory = ", ".join(f"{kind} {getattr(sample, kind):.0f} MB" for kind in KINDS)
    return f"{sample.refreshes} refreshes in {sample.seconds:.0f} s: {memory}"


def _take_samples(
    mill: Tidemill, directory: Path, server: psutil.Process, refreshes: int, every: int
) -> Iterator[MemorySample]:
    mill.insert("users", _write_rows(directory, [{"user": u, "city": f"city{u % CITIES}"} for u in range(USERS)]))
    began, number, taken = time.monotonic(), 0, 0
    while (done := _count_refreshes(mill)) < refreshes:
        mill.insert("events", _write_rows(directory, _generate_events(number)))
        number += 1
        _wait_for_refreshes(mill, done + len(TABLES))
        if done // every > taken:
            taken = done // every
            yield _read_memory(server, done, time.monotonic() - began)


def _count_refreshes(mill: Tidemill) -> int:
    """Each refresh writes one block, and nothing else writes to these channels at new positions."""
    return sum(mill.catalog.channels.read(name).head.seq for name in TABLES)


def _wait_for_refreshes(mill: Tidemill, count: int) -> None:
    deadline = time.monotonic() + _PATIENCE
    while _count_refreshes(mill) < count:
        if time.monotonic() > deadline:
            raise RuntimeError(f"{_count_refreshes(mill)} refreshes, {count} expected; see up.log")
        time.sleep(_POLL_INTERVAL)


def _generate_events(number: int) -> list[dict[str, Any]]:
    """New events; an event that replaces an older one has another amount."""
    ids = ((number * EVENTS + n) % MAX_EVENTS for n in range(EVENTS))
    return [{"id": event, "user": event * 13 % USERS, "amount": number + event} for event in ids]


def _write_rows(directory: Path, rows: Sequence[dict[str, Any]]) -> Path:
    path = directory / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def _read_memory(server: psutil.Process, refreshes: int, seconds: float) -> MemorySample:
    megabytes = Counter({"server": server.memory_info().rss / 2**20})
    for child in server.children(recursive=True):
        try:
            megabytes["jvm" if child.name() == "java" else "workers"] += child.memory_info().rss / 2**20
        except psutil.NoSuchProcess:  # it ended after it was listed
            continue
    return MemorySample(refreshes, round(seconds, 1), *(round(megabytes[kind], 1) for kind in KINDS))


def summarize_samples(samples: Sequence[MemorySample]) -> dict[str, Any]:
    """The growth of each kind of process, by the rule, and all samples."""
    quarter = max(1, len(samples) // 4)
    second, last = samples[quarter : 2 * quarter] or samples, samples[-quarter:]
    growth = {f"{kind}_growth": _compute_growth(kind, second, last) for kind in KINDS}
    refreshes = {"refreshes": samples[-1].refreshes, "seconds": samples[-1].seconds}
    return {**refreshes, **growth, **judge_goals(GOALS, growth), "samples": [asdict(sample) for sample in samples]}


def _compute_growth(kind: str, before: Sequence[MemorySample], after: Sequence[MemorySample]) -> float:
    """The ratio of the means; 1 if there are no such processes."""
    means = [fmean(getattr(sample, kind) for sample in part) for part in (before, after)]
    return round(means[1] / means[0], 3) if means[0] else 1.0 + means[1]


def render_samples(samples: Sequence[MemorySample]) -> str:
    lines = {kind: [(float(s.refreshes), getattr(s, kind)) for s in samples] for kind in KINDS}
    return render_line_chart(f"Memory over {samples[-1].refreshes} refreshes", "refreshes", "resident MB", lines)
