"""The real servers, on real Spark: data comes, tables follow; a server dies, another goes on; SIGTERM drains."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tidemill.app import Tidemill
from tidemill.model.run import RunState

WORKFLOW = """
import os, pathlib
import tidemill as tm

wf = tm.Workflow("shop")
wf.input("orders", "item string, price int")
wf.sql("totals", "SELECT item, sum(price) AS price FROM orders GROUP BY item", triggers=[tm.on("orders")])


@wf.task(triggers=[tm.after("totals")])
def copied(totals: tm.All) -> tm.Base:
    gate = pathlib.Path(__file__).with_name("gate")
    if gate.exists():  # the server dies with the run in hand
        gate.unlink()
        os.kill(os.getpid(), 9)
    return totals
"""

SETTINGS = """
[runs]
lease = 2
[server]
tick = 0.2
lead = 2
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


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline, "it took too long"
        time.sleep(0.1)


@pytest.mark.xdist_group("spark")
@pytest.mark.timeout(600)
def test_servers_keep_tables_fresh_though_one_dies(tmp_path: Path) -> None:
    (tmp_path / "tidemill.toml").write_text(SETTINGS)
    (tmp_path / "workflow.py").write_text(WORKFLOW)
    (tmp_path / "monday.csv").write_text("item,price\ntea,3\nrice,5\ntea,4\n")
    (tmp_path / "gate").touch()
    with Tidemill.open(tmp_path) as mill:
        mill.apply()
        mill.insert("orders", tmp_path / "monday.csv")
        with server(tmp_path, "up") as first:
            until(lambda: first.poll() is not None)
        assert first.returncode == -signal.SIGKILL
        (left,) = mill.catalog.runs(subject="copied")
        assert left.state is RunState.RUNNING
        with server(tmp_path, "work") as second:
            until(lambda: mill.catalog.run(left.id).state is RunState.FINISHED)
            second.send_signal(signal.SIGTERM)
            assert second.wait(PATIENCE) == 0
        assert [f.flow for f in mill.catalog.firings()] == ["copied", "totals"]
        assert mill.catalog.run(left.id).attempt == 2
        assert sorted((r["item"], r["price"]) for r in mill.rows("copied")) == [("rice", 5), ("tea", 7)]
