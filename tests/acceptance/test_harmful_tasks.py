"""Tasks that harm their process fail alone, while a table beside them is refreshed on time; real server, real Spark."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from tidemill.app.wiring import Tidemill
from tidemill.model.run import Run, RunState

SETTINGS = """
[server]
tracks = 2
poll_interval = 0.2
[workers]
memory = "2500 MB"
disk = "500 MB"
processes = 60
[api]
port = 0
[spark]
master = "local[1]"
settings = { "spark.driver.memory" = "600m" }
"""

WORKFLOW = """
import ctypes, locale, os, signal, subprocess, sys, tempfile, threading, time
from pathlib import Path
import pyspark.sql
import tidemill as tm

wf = tm.Workflow("shop")
wf.input("ticks", "n int")
wf.sql("totals", "SELECT count(*) AS n FROM ticks", triggers=[tm.on("ticks")])
wf.input("orders", "n int")


@wf.task(time_limit=3)
def loops(orders: tm.All) -> tm.Base:
    while True:
        pass


@wf.task
def allocates(orders: tm.All) -> tm.Base:
    hoard = []
    while True:
        hoard.append(b"x" * (32 << 20))


@wf.task
def stops_spark(orders: tm.All) -> tm.Base:
    orders.sparkSession.stop()
    return orders


@wf.task
def bombs(orders: tm.All) -> tm.Base:
    while True:
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)


@wf.task
def fills_disk(orders: tm.All) -> tm.Base:
    for number in range(10_000):
        (Path(tempfile.gettempdir()) / f"part{number}").write_bytes(b"x" * (8 << 20))
    return orders


@wf.task
def closes_descriptors(orders: tm.All) -> tm.Base:
    os.closerange(3, 4096)
    return orders


@wf.task
def exits(orders: tm.All) -> tm.Base:
    os._exit(3)


@wf.task
def crashes(orders: tm.All) -> tm.Base:
    ctypes.string_at(0)


@wf.task
def holds_interpreter(orders: tm.All) -> tm.Base:
    ctypes.PyDLL(None).sleep(600)


@wf.task
def changes_process(orders: tm.All) -> tm.Base:
    os.chdir("/")
    os.environ["TZ"] = "Asia/Tokyo"
    time.tzset()
    locale.setlocale(locale.LC_ALL, "C.UTF-8")
    return orders


@wf.task
def leaves_thread(orders: tm.All) -> tm.Base:
    def spin():
        while True:
            pass
    threading.Thread(target=spin, daemon=True).start()
    return orders


@wf.task
def replaces_functions(orders: tm.All) -> tm.Base:
    def refuse(self, *args):
        raise ValueError("replaced")
    pyspark.sql.DataFrame.where = pyspark.sql.DataFrame.toArrow = refuse
    return orders
"""

FAILING = {
    "loops": "time limit of 3 s",
    "allocates": "exceeded its memory limit",
    "stops_spark": "Spark",
    "bombs": "exceeded its limit of 60 processes",
    "fills_disk": "of temporary files",
    "closes_descriptors": "",
    "exits": "ended with status 3",
    "crashes": "ended with signal SIGSEGV",
    "holds_interpreter": "gave no sign of life",
}
"""Tasks whose run fails, with a part of the reason."""

HARMLESS = ("changes_process", "leaves_thread", "replaces_functions")
"""Tasks whose own run succeeds, and that must not affect later runs."""

PATIENCE = 180.0
LATENCY = 20.0
"""Seconds within which the table beside must be fresh, on a busy machine; alone it takes about one."""


@contextmanager
def start_server(project: Path) -> Iterator[psutil.Process]:
    program = [str(Path(sys.executable).with_name("tidemill")), "up"]
    with (project / "up.log").open("ab") as log:
        process = subprocess.Popen(program, cwd=project, stdout=log, stderr=log, env={**os.environ})
    try:
        yield psutil.Process(process.pid)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0
    finally:
        process.kill()
        process.wait()


def wait_until(is_true: Callable[[], bool], seconds: float = PATIENCE) -> float:
    """Wait for a condition; returns the seconds that it took."""
    began = time.monotonic()
    while not is_true():
        assert time.monotonic() - began < seconds, "timed out"
        time.sleep(0.1)
    return time.monotonic() - began


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_harmful_tasks_fail_alone(tmp_path: Path) -> None:
    (tmp_path / "tidemill.toml").write_text(SETTINGS)
    (tmp_path / "workflow.py").write_text(WORKFLOW)
    (tmp_path / "one.jsonl").write_text('{"n": 1}\n')
    with start_server(tmp_path) as server, Tidemill.open(tmp_path) as mill:
        wait_until(lambda: "serves" in (tmp_path / "up.log").read_text())
        mill.insert("orders", tmp_path / "one.jsonl")
        refresh_table(mill, tmp_path)
        for task in (*FAILING, *HARMLESS):
            run = mill.catalog.runs.request(mill.catalog.runs.list(limit=1)[0].kind.FLOW, task)
            refresh_table(mill, tmp_path)
            wait_until(lambda run=run: read_run(mill, run).state not in (RunState.READY, RunState.RUNNING))
            ended = read_run(mill, run)
            if task in FAILING:
                assert ended.state is RunState.FAILED, task
                assert FAILING[task] in (ended.error or ""), task
            else:
                assert ended.state is RunState.FINISHED, (task, ended.error)
            wait_until(lambda: measure_cpu(server) < 0.5, 10.0)
            refresh_table(mill, tmp_path)
        assert sum(p.memory_info().rss for p in list_processes(server)) < 8 << 30


def refresh_table(mill: Tidemill, project: Path) -> None:
    """Insert a row, and wait until the table has it."""
    head = mill.catalog.channels.read("totals").head.seq
    mill.insert("ticks", project / "one.jsonl")
    wait_until(lambda: mill.catalog.channels.read("totals").head.seq > head, LATENCY)


def read_run(mill: Tidemill, run: Run) -> Run:
    return mill.catalog.runs.read(run.id)


def list_processes(server: psutil.Process) -> list[psutil.Process]:
    return [server, *server.children(recursive=True)]


def measure_cpu(server: psutil.Process) -> float:
    """The cores that a server and its workers use, over a second."""
    before = sum_cpu(server)
    time.sleep(1.0)
    return sum_cpu(server) - before


def sum_cpu(server: psutil.Process) -> float:
    return sum(sum(p.cpu_times()[:2]) for p in list_processes(server) if p.is_running())
