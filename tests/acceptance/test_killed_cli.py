"""The real command on real Spark, killed during a run."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tidemill.app.wiring import Tidemill
from tidemill.model.block import BlockState
from tidemill.model.run import RunState

WORKFLOW = """
import os, pathlib
import tidemill as tm

wf = tm.Workflow("w")
wf.input("words", "word string")
wf.table("copies", "word string")  # otherwise apply calls the task with an empty frame to find its columns

@wf.task
def copies(words: tm.New) -> tm.Delta:
    gate = pathlib.Path(__file__).with_name("gate")
    if gate.exists():  # the rows are written but not returned: die here
        words.write.parquet(str(gate.with_name("scratch")))
        os.kill(os.getpid(), 9)
    return words
"""


SETTINGS = """
[runs]
lease = {lease}
[spark]
master = 'local[1]'
"""


@pytest.mark.long
def test_a_killed_run_is_reclaimed_and_repeated(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "tidemill.toml").write_text(SETTINGS.format(lease=3))
    (tmp_path / "workflow.py").write_text(WORKFLOW)
    (tmp_path / "words.csv").write_text("word\na\nb\n")
    (tmp_path / "gate").touch()
    with Tidemill.open(tmp_path) as mill:
        mill.apply()
        mill.insert("words", tmp_path / "words.csv")

    command = [str(Path(sys.executable).with_name("tidemill")), "run", "copies"]
    finished = subprocess.run(command, cwd=tmp_path, check=False, capture_output=True, timeout=200)
    assert finished.returncode == -signal.SIGKILL

    (tmp_path / "gate").unlink()
    (tmp_path / "tidemill.toml").write_text(SETTINGS.format(lease=60))
    with Tidemill.open(tmp_path) as mill:
        (dead,) = mill.catalog.runs.list(subject="copies")
        assert dead.state is RunState.RUNNING
        assert mill.catalog.channels.read("copies").reserved == 1
        assert dead.lease_until is not None
        while mill.catalog.read_time() < dead.lease_until:
            time.sleep(0.05)
        mill.run("copies")
        assert mill.catalog.runs.read(dead.id).state is RunState.KILLED
        assert [b.rows for b in mill.catalog.blocks.list("copies") if b.state is BlockState.FILLED and b.seq] == [2]
        mill.collect(grace="0s")
        assert set(mill.store.list_all_files()) == mill.catalog.files.list_referenced()
