"""A one-shot workflow with an action of each kind under `tidemill up`: the server is killed, the next one continues."""

from __future__ import annotations

import json
import os
import signal
import stat
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from tests.acceptance.test_crash import ROUNDS
from tests.acceptance.test_submit import PROGRAM
from tests.acceptance.test_up import PATIENCE, SETTINGS, server, wait_until

from tidemill.app.wiring import Tidemill
from tidemill.model.run import RunState
from tidemill.model.submission import Submission

SCRIPT = """
import sys
from pyspark.sql import SparkSession

quick = {"spark.master": "local[1]", "spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "1"}
spark = SparkSession.builder.config(map=quick).getOrCreate()
spark.read.parquet(sys.argv[1]).distinct().write.mode("append").parquet(sys.argv[2])
"""
FUNCTION = """
import os, pathlib

def uppercase(counts):
    gate = pathlib.Path(__file__).with_name("gate")
    if gate.exists():  # the server dies during the action
        gate.unlink()
        os.kill(os.getppid(), 9)
    return counts.selectExpr("upper(word) AS word", "n")
"""


def build_document() -> dict[str, object]:
    query = "SELECT raw.word, count(*) AS n FROM raw JOIN words USING (word) GROUP BY raw.word"
    actions = [
        {"id": 1, "name": "raw", "type": "command-line", "command": ["./fetch", "{output}"], "files": ["./fetch"]},
        {"id": 2, "name": "words", "type": "pyspark-script", "script": "words.py", "arguments": ["{raw}", "{output}"]},
        {"id": 3, "name": "counts", "type": "spark-sql", "query": query},
        {"id": 4, "name": "uppercase", "type": "python-function", "function": "shouting:uppercase"},
        {"id": 5, "name": "last", "type": "spark-sql", "query": "SELECT * FROM uppercase WHERE n > 1"},
    ]
    parents: dict[int, list[int]] = {2: [1], 3: [1, 2], 4: [3], 5: [4]}
    for action, read in zip(actions[1:], parents.values(), strict=True):
        action["parentActions"] = [{"id": number} for number in read]
    actions[-1] |= {"isManaged": False, "path": "out"}
    return {"name": "words", "startActionId": 1, "endActionId": 5, "actions": actions}


def write_project(directory: Path) -> None:
    (directory / "tidemill.toml").write_text(SETTINGS)
    (directory / "workflow.py").write_text("import tidemill as tm\n\nwf = tm.Workflow('empty')\n")
    (directory / "fetch").write_text(PROGRAM.format(python=sys.executable))
    (directory / "fetch").chmod(stat.S_IRWXU)
    (directory / "words.py").write_text(SCRIPT)
    (directory / "shouting.py").write_text(FUNCTION)
    (directory / "gate").touch()


def list_states(submission: Submission) -> list[RunState]:
    return [a.state for a in submission.actions]


@pytest.mark.skipif(not ROUNDS, reason="a minute of servers and Spark's start; `make crash` runs it")
@pytest.mark.timeout(600)
def test_actions_that_finished_before_a_server_died_are_not_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    write_project(tmp_path)
    with Tidemill.open(tmp_path) as mill:
        number = mill.oneshot_service.submit_workflow(json.dumps(build_document()), "ada").id
        with server(tmp_path, "up") as first:
            wait_until(lambda: first.poll() is not None)
        assert first.returncode == -signal.SIGKILL
        before = mill.catalog.datasets.read_submission(number)
        assert list_states(before) == [RunState.FINISHED] * 3 + [RunState.RUNNING, RunState.WAITING]
        with server(tmp_path, "up") as second:
            wait_until(lambda: mill.catalog.datasets.read_submission(number).has_ended)
            second.send_signal(signal.SIGTERM)
            assert second.wait(PATIENCE) == 0
        after = mill.catalog.datasets.read_submission(number)
        assert list_states(after) == [RunState.FINISHED] * 5
        assert after.actions[:3] == before.actions[:3]  # the same runs, at the same times
        assert [a.run.attempt for a in after.actions if a.run] == [1, 1, 1, 2, 1]
        assert pq.read_table(tmp_path / "out").to_pylist() == [{"word": "TIDE", "n": 2}]
