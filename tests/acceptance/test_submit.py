"""A one-shot workflow with an action of each kind, on Spark: computed once, then reused without any Spark job."""

from __future__ import annotations

import json
import stat
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tidemill.app.project import Project
from tidemill.app.settings import Settings
from tidemill.app.wiring import Tidemill

PROGRAM = """#!{python}
import sys
import pyarrow as pa
import pyarrow.parquet as pq
pq.write_table(pa.table({{"word": ["tide", "mill", "tide"]}}), sys.argv[1] + "/words.parquet")
"""
FUNCTION = """
def longest(counts, least):
    return counts.where(counts.n >= least)
"""
WORKFLOW = {
    "name": "words",
    "startActionId": 1,
    "endActionId": 3,
    "actions": [
        {"id": 1, "name": "raw", "type": "command-line", "command": ["./fetch", "{output}"], "files": ["./fetch"]},
        {
            "id": 2,
            "name": "counts",
            "type": "spark-sql",
            "query": "SELECT word, count(*) AS n FROM raw GROUP BY word",
            "parentActions": [{"id": 1}],
        },
        {
            "id": 3,
            "name": "often",
            "type": "python-function",
            "function": "oneshot_reports:longest",
            "parameters": {"least": 2},
            "isManaged": False,
            "path": "out/often",
            "parentActions": [{"id": 2, "as": "counts"}],
        },
    ],
}


def test_an_action_of_each_kind_is_computed_once(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "fetch").write_text(PROGRAM.format(python=sys.executable))
    (tmp_path / "fetch").chmod(stat.S_IRWXU)
    (tmp_path / "oneshot_reports.py").write_text(FUNCTION)
    with Tidemill(tmp_path, Settings(), Project(())) as mill:
        submission = mill.oneshot_service.complete_submission(
            mill.oneshot_service.submit_workflow(json.dumps(WORKFLOW), "ada").id
        )
        assert [a.verdict for a in submission.actions] == ["new", "new", "new"]
        assert pq.read_table(tmp_path / "out" / "often").to_pylist() == [{"word": "tide", "n": 2}]
        assert "rows" in mill.catalog.runs.read_log(1)

        def fail(*_: Any, **__: Any) -> None:
            raise AssertionError("the engine was called")

        monkeypatch.setattr("tidemill.spark.engine.SparkEngine.run_task", fail)
        repeated = mill.oneshot_service.complete_submission(
            mill.oneshot_service.submit_workflow(json.dumps(WORKFLOW), "bob").id
        )
        assert {a.verdict for a in repeated.actions} == {"reused"}
