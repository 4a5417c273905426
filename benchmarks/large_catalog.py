"""What users wait for with a large catalog: the status, the page, and the start of a server.

Two projects. In one, all tables were refreshed once by an engine that writes no rows, and data arrived afterwards, so
that most tables lag behind. `tidemill status` is timed as a process, the first answers of the API and of the page as
requests to a new process, which has read nothing yet. The other project has few tables and a long history of runs;
the time from the start of `tidemill up` to its first answer is measured. Spark starts after that.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import httpx

from benchmarks.bulk_load import append_runs
from benchmarks.empty_engine import build_controller
from benchmarks.goals import Goal, judge_goals
from benchmarks.server_process import build_command, find_free_port, run_server_process, wait_for_port, write_project
from benchmarks.tables_workflow import build_workflow, count_inputs, format_rows, format_workflow_file
from tidemill.app.project import Project
from tidemill.app.settings import Settings
from tidemill.app.wiring import Tidemill

STATUS_SECONDS, START_SECONDS = 2.0, 3.0
START_TABLES = 20
"""Tables of the project whose server is started."""
_TARGET_LAG = 3600.0
_PATIENCE = 120.0  # seconds for an answer

GOALS = (
    Goal("status_s", STATUS_SECONDS, "`tidemill status` takes at most 2 s, including the start of its process"),
    Goal("status_json_s", STATUS_SECONDS, "`tidemill status --json` takes at most 2 s, including its process"),
    Goal("api_status_s", STATUS_SECONDS, "the first answer of the API's status takes at most 2 s"),
    Goal("page_s", STATUS_SECONDS, "the first answer of the page takes at most 2 s"),
    Goal("start_s", START_SECONDS, "a server with this history answers 3 s after the start of its process"),
)


def measure(
    directory: Path, *, tables: int, runs: int, rounds: int, on_progress: Callable[[str], None]
) -> dict[str, Any]:
    """Medians over rounds. Each round starts new processes, so nothing is cached but by the operating system."""
    figures = _time_status(directory / "tables", tables, rounds, on_progress)
    figures |= _time_start(directory / "history", runs, rounds, on_progress)
    return {"tables": tables, "runs": runs, "rounds": rounds, **figures, **judge_goals(GOALS, figures)}


def _time_status(directory: Path, tables: int, rounds: int, on_progress: Callable[[str], None]) -> dict[str, float]:
    directory.mkdir()
    on_progress(f"registering and refreshing {tables} tables")
    generate_tables(directory, tables)
    on_progress("timing the status and the page")
    requests = [_time_requests(directory) for _ in range(rounds)]
    return {
        "status_s": _time_command(directory, rounds, "status"),
        "status_json_s": _time_command(directory, rounds, "status", "--json"),
        **{name: round(median(request[name] for request in requests), 3) for name in requests[0]},
    }


def generate_tables(directory: Path, tables: int) -> None:
    """Register the tables, refresh each of them once without rows, and insert data that no table reflects yet."""
    workflow = build_workflow(tables, _TARGET_LAG)
    write_project(directory, format_workflow_file(tables, _TARGET_LAG))
    with Tidemill(directory, Settings(), Project((workflow.build_spec(),))) as mill:
        controller = build_controller(mill)
        mill.catalog.workflows.apply(controller.workflow)
        for inserts in range(2):
            for number in range(count_inputs(tables)):
                path = directory / "rows.csv"
                path.write_text(format_rows(number, 10 * inserts, 10))
                mill.insert(f"in{number}", path)
            for binding in controller.workflow.bindings if not inserts else ():
                controller.run_flow(binding)


def _time_command(directory: Path, rounds: int, *arguments: str) -> float:
    """Median seconds of a command, from the start of its process to its end."""
    seconds = []
    for _ in range(rounds):
        began = time.perf_counter()
        subprocess.run(build_command(directory, *arguments), check=True, stdout=subprocess.DEVNULL)
        seconds.append(time.perf_counter() - began)
    return round(median(seconds), 3)


def _time_requests(directory: Path) -> dict[str, float]:
    """Seconds of the first answers of a new process that serves the API and the page, and executes no runs."""
    port = find_free_port()
    command = [sys.executable, "-m", "benchmarks.page_server", str(directory), str(port)]
    with (directory / "up.log").open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            wait_for_port(directory, process, port)
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=_PATIENCE) as client:
                return {"page_s": _time_request(client, "/"), "api_status_s": _time_request(client, "/api/v1/status")}
        finally:
            process.terminate()


def _time_request(client: httpx.Client, path: str) -> float:
    began = time.perf_counter()
    client.get(path).raise_for_status()
    return time.perf_counter() - began


def _time_start(directory: Path, runs: int, rounds: int, on_progress: Callable[[str], None]) -> dict[str, float]:
    """Seconds from the start of a server's process to its first answer."""
    directory.mkdir()
    on_progress(f"adding a history of {runs} runs")
    port = write_project(directory, format_workflow_file(START_TABLES), f"[maintenance]\nrun_history = {runs}\n")
    with Tidemill.open(directory) as mill:
        mill.apply()
        append_runs(mill.catalog, [b.name for b in mill.catalog.flows.list()], runs)
    on_progress("timing the start of a server")
    seconds = []
    for _ in range(rounds):
        began = time.perf_counter()
        with run_server_process(directory) as process:
            wait_for_port(directory, process, port)
            seconds.append(time.perf_counter() - began)
    return {"start_s": round(median(seconds), 3)}
