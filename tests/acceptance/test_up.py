"""The real servers on real Spark: inserts refresh tables; a server is killed, another continues; SIGTERM drains."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import psutil
import pytest

from tidemill.app.wiring import Tidemill
from tidemill.model.run import RunState

WORKFLOW = """
import os, pathlib
import tidemill as tm

wf = tm.Workflow("shop")
wf.input("orders", "item string, price int")
wf.sql("totals", "SELECT item, sum(price) AS price FROM orders GROUP BY item", triggers=[tm.on("orders")])


@wf.task(triggers=[tm.after("totals")])
def copies(totals: tm.All) -> tm.Base:
    gate = pathlib.Path(__file__).with_name("gate")
    if gate.exists():  # the server dies during the run
        gate.unlink()
        os.kill(os.getppid(), 9)
    return totals
"""

SETTINGS = """
[runs]
lease = 2
[server]
poll_interval = 0.2
leader_timeout = 2
[api]
port = 0
[spark]
master = "local[1]"
"""
PATIENCE = 120.0


@contextmanager
def server(project: Path, command: str) -> Iterator[subprocess.Popen[bytes]]:
    program = [str(Path(sys.executable).with_name("tidemill")), command, "--tracks", "1"]
    with (project / f"{command}.log").open("ab") as log:
        process = subprocess.Popen(program, cwd=project, stdout=log, stderr=log, env={**os.environ})
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def wait_until(is_true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not is_true():
        assert time.monotonic() < deadline, "timed out"
        time.sleep(0.1)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_servers_refresh_tables_after_one_is_killed(tmp_path: Path) -> None:
    (tmp_path / "tidemill.toml").write_text(SETTINGS)
    (tmp_path / "workflow.py").write_text(WORKFLOW)
    (tmp_path / "monday.csv").write_text("item,price\ntea,3\nrice,5\ntea,4\n")
    (tmp_path / "gate").touch()
    with Tidemill.open(tmp_path) as mill:
        mill.apply()
        mill.insert("orders", tmp_path / "monday.csv")
        with server(tmp_path, "up") as first:
            wait_until(lambda: first.poll() is not None)
        assert first.returncode == -signal.SIGKILL
        (lost_run,) = mill.catalog.runs.list(subject="copies")
        assert lost_run.state is RunState.RUNNING
        with server(tmp_path, "work") as second:
            wait_until(lambda: mill.catalog.runs.read(lost_run.id).state is RunState.FINISHED)
            second.send_signal(signal.SIGTERM)
            assert second.wait(PATIENCE) == 0
        assert [f.flow for f in mill.catalog.triggers.list_firings()] == ["copies", "totals"]
        assert mill.catalog.runs.read(lost_run.id).attempt == 2
        assert sorted((r["item"], r["price"]) for r in mill.rows("copies")) == [("rice", 5), ("tea", 7)]


@pytest.mark.timeout(PATIENCE)
def test_a_server_ends_at_once_while_it_starts(tmp_path: Path) -> None:
    (tmp_path / "tidemill.toml").write_text(SETTINGS)
    (tmp_path / "workflow.py").write_text("import time\ntime.sleep(3600)\n")
    with server(tmp_path, "up") as up:
        wait_until(lambda: "API and page" in (tmp_path / "up.log").read_text())
        workers = psutil.Process(up.pid).children(recursive=True)
        up.send_signal(signal.SIGTERM)
        assert up.wait(PATIENCE) == 0
    assert not [p for p in workers if p.is_running()]


def find_java_process(server: subprocess.Popen[bytes]) -> int | None:
    """The Java process of a server's worker, or None."""
    processes = psutil.Process(server.pid).children(recursive=True)
    return next((p.pid for p in processes if p.name() == "java"), None)


def read_health(project: Path) -> int:
    url = (project / "up.log").read_text().partition("API and page at ")[2].split()[0]
    return httpx.get(f"{url}/healthz", timeout=PATIENCE).status_code


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finds the Java process by Linux's /proc")
def test_a_server_restarts_a_killed_java_process_and_catches_up(tmp_path: Path) -> None:
    (tmp_path / "tidemill.toml").write_text(SETTINGS)
    (tmp_path / "workflow.py").write_text(WORKFLOW)
    (tmp_path / "monday.csv").write_text("item,price\ntea,3\n")
    (tmp_path / "tuesday.csv").write_text("item,price\nrice,5\n")
    with Tidemill.open(tmp_path) as mill, server(tmp_path, "up") as up:
        wait_until(lambda: any(s.state == "serving" for s in mill.catalog.servers.list()))
        wait_until(lambda: "serves" in (tmp_path / "up.log").read_text())
        mill.insert("orders", tmp_path / "monday.csv")
        wait_until(lambda: mill.catalog.channels.read("copies").head.seq == 1)
        assert read_health(tmp_path) == 200
        java = find_java_process(up)
        assert java is not None
        os.kill(java, signal.SIGKILL)
        wait_until(lambda: read_health(tmp_path) == 503)
        mill.insert("orders", tmp_path / "tuesday.csv")
        wait_until(lambda: mill.catalog.channels.read("copies").head.seq == 2)
        assert read_health(tmp_path) == 200
        assert {r.state for r in mill.catalog.runs.list()} == {RunState.FINISHED}
        assert all(r.attempt == 1 + r.lost_attempts for r in mill.catalog.runs.list())
        up.send_signal(signal.SIGTERM)
        assert up.wait(PATIENCE) == 0
