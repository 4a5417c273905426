"""The price of worker processes: a run in a server's worker compared with the same run in this process.

Claim: a refresh at 0.1 % costs at most 1.1 times as much as in the same process, and a run without work at most 30 ms
more. Rule: medians of `rounds` rounds, alternately, after three rounds that are not counted. Set-up: two projects with
the same table of groups over the same rows, a share of them inserted before each round; default settings, maintenance
off during the timings, because it runs beside both. With `connect`, both sides are clients of one Spark Connect server,
so that a worker has no Java process.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import psutil  # type: ignore[import-untyped]
import pyarrow as pa

from benchmarks.connect_server import run_connect_server
from tidemill.app.isolation import IsolatedTidemill
from tidemill.app.wiring import Tidemill
from tidemill.model.run import RunKind

MAX_RATIO = 1.1
MAX_EXTRA_MS = 30.0
WARM_UP = 3
IDLE_SECONDS = 10.0

WORKFLOW = """
import tidemill as tm

wf = tm.Workflow("isolation")
wf.input("facts", "k bigint, g bigint, v bigint")
wf.sql("totals", "SELECT g, sum(v) AS v, count(*) AS n FROM facts GROUP BY g", refresh="incremental")
wf.input("empty", "a int")


@wf.task
def nothing(empty: tm.New) -> tm.Delta:
    return empty
"""

SETTINGS = """
[server]
tracks = 1
[maintenance]
automatic = false
[spark]
settings = { CONNECT }
"""


@dataclass
class Side:
    """One of the compared projects, and its timings."""

    mill: Tidemill
    next_key: int = 0
    refreshes: list[float] = field(default_factory=list)
    empty_runs: list[float] = field(default_factory=list)  # of a table without new rows
    empty_tasks: list[float] = field(default_factory=list)  # of a PySpark task that reads and writes no rows

    def insert_rows(self, count: int) -> None:
        keys = range(self.next_key, self.next_key + count)
        self.next_key += count
        rows = {"k": list(keys), "g": [k % 10_000 for k in keys], "v": [k % 97 for k in keys]}
        self.mill.insert("facts", pa.table(rows))

    def time_run(self, flow: str) -> float:
        run = self.mill.catalog.runs.request(RunKind.FLOW, flow)
        began = time.perf_counter()
        self.mill.execute_run(run)
        seconds = time.perf_counter() - began
        ended = self.mill.catalog.runs.read(run.id)
        if ended.state != "finished":
            raise RuntimeError(f"run of {flow}: {ended.state}: {ended.error}")
        return seconds


def measure(
    directory: Path, *, rows: int, share: float, rounds: int, connect: bool, on_progress: Callable[[str], None]
) -> dict[str, Any]:
    """Alternate runs in this process and in a worker; then measure the idle worker."""
    with ExitStack() as stack:
        server = stack.enter_context(run_connect_server(directory)) if connect else None
        address = None if server is None else server.address
        here = stack.enter_context(_open_side(Tidemill.open, directory / "here", address))
        worker = stack.enter_context(_open_side(IsolatedTidemill.open_server, directory / "worker", address))
        start = _time_start(worker.mill)
        for side in (here, worker):
            on_progress(f"inserting {rows} rows")
            side.mill.apply()
            side.insert_rows(rows)
            side.time_run("totals")
        for number in range(WARM_UP + rounds):
            on_progress(f"round {number + 1} of {WARM_UP + rounds}")
            for side in (here, worker):
                side.insert_rows(max(1, int(rows * share)))
                refresh, empty, task = (side.time_run(flow) for flow in ("totals", "totals", "nothing"))
                if number >= WARM_UP:
                    side.refreshes.append(refresh)
                    side.empty_runs.append(empty)
                    side.empty_tasks.append(task)
        idle = _measure_idle(worker.mill)
        if server is not None:
            idle["server_mb"] = _sum_memory([psutil.Process(server.process.pid)])
    ratio = median(worker.refreshes) / median(here.refreshes)
    extra_ms = 1000 * (median(worker.empty_runs) - median(here.empty_runs))
    return {
        "rows": rows,
        "share": share,
        "connect": connect,
        "here_s": round(median(here.refreshes), 4),
        "worker_s": round(median(worker.refreshes), 4),
        "ratio": round(ratio, 3),
        "here_empty_ms": round(1000 * median(here.empty_runs), 1),
        "extra_empty_ms": round(extra_ms, 1),
        "here_empty_task_ms": round(1000 * median(here.empty_tasks), 1),
        "worker_empty_task_ms": round(1000 * median(worker.empty_tasks), 1),
        "start_s": round(start, 2),
        **idle,
        "holds": ratio <= MAX_RATIO and extra_ms <= MAX_EXTRA_MS,
    }


@contextmanager
def _open_side(open_mill: Callable[[Path], Tidemill], directory: Path, address: str | None) -> Iterator[Side]:
    directory.mkdir(parents=True)
    remote = "" if address is None else f'"spark.remote" = "{address}"'
    (directory / "tidemill.toml").write_text(SETTINGS.replace("CONNECT", remote))
    (directory / "workflow.py").write_text(WORKFLOW)
    with open_mill(directory) as mill:
        yield Side(mill)


def _time_start(mill: Tidemill) -> float:
    began = time.perf_counter()
    mill.engine.start()
    return time.perf_counter() - began


def _measure_idle(mill: Tidemill) -> dict[str, float]:
    """The memory of an idle worker, its share that is Java's, and the share of a core that it uses."""
    assert isinstance(mill, IsolatedTidemill)
    time.sleep(IDLE_SECONDS)
    worker = psutil.Process(min(mill.pool.list_processes()))
    processes = [worker, *worker.children(recursive=True)]
    before = _sum_cpu(processes)
    time.sleep(IDLE_SECONDS)
    used = (_sum_cpu(processes) - before) / IDLE_SECONDS
    return {
        "worker_mb": _sum_memory(processes),
        "java_mb": _sum_memory([p for p in processes if p.name() == "java"]),
        "idle_cpu": round(used, 4),
    }


def _sum_memory(processes: list[psutil.Process]) -> int:
    """The memory of processes in MB; of pages that several processes share, each has its part."""
    total: float = sum(p.memory_full_info().pss for p in processes)
    return round(total / 2**20)


def _sum_cpu(processes: list[psutil.Process]) -> float:
    return float(sum(sum(p.cpu_times()[:2]) for p in processes))
