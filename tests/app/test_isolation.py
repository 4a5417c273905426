"""A project that is open in a server executes users' code in its worker, and answers like any other."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from tidemill.app.isolation import IsolatedTidemill
from tidemill.errors import ConfigError, NotFound, RunFailed, WorkflowError
from tidemill.model.block import BlockKind
from tidemill.model.run import Run, RunKind, RunState

SETTINGS = """
[server]
tracks = 1
[spark]
master = "local[1]"
"""

WORKFLOW = """
import os
import tidemill as tm

wf = tm.Workflow("shop")
wf.input("orders", "item string, price decimal(10, 2), at timestamp")
wf.sql("totals", "SELECT item, sum(price) AS price, max(at) AS at FROM orders GROUP BY item")


def keep_largest(*parts):
    return sorted((row for rows in parts for row in rows), key=lambda row: row["score"])[-1:]


scores = tm.custom("item", chain=keep_largest, merge=keep_largest, diff=lambda before, after: after)
wf.input("scores", "item string, score int", updates=scores)


@wf.task
def exits(orders: tm.All) -> tm.Base:
    os._exit(3)
"""

WRONG = "import tidemill as tm\nwf = tm.Workflow('shop')\nwf.sql('totals', 'SELECT missing FROM nowhere')\n"

ORDERS = "item,price,at\ntea,3,2026-01-01T00:00:00\nrice,5,2026-01-01T00:00:00\n"


@pytest.fixture(scope="module")
def mill(tmp_path_factory: pytest.TempPathFactory) -> Iterator[IsolatedTidemill]:
    project = tmp_path_factory.mktemp("project")
    (project / "tidemill.toml").write_text(SETTINGS)
    (project / "workflow.py").write_text(WORKFLOW)
    (project / "orders.csv").write_text(ORDERS)
    with IsolatedTidemill.open_server(project) as mill:
        mill.engine.start()
        mill.apply()
        yield mill


def execute(mill: IsolatedTidemill, flow: str) -> Run:
    run = mill.catalog.runs.request(RunKind.FLOW, flow)
    mill.execute_run(run)
    return mill.catalog.runs.read(run.id)


def test_every_operation_is_answered_by_the_worker(mill: IsolatedTidemill) -> None:
    for _ in range(2):
        mill.insert("orders", mill.directory / "orders.csv")
        run = execute(mill, "totals")
        assert (run.state, run.owner) == (RunState.FINISHED, f"{mill.executor.owner}/1")
    rows = {row["item"]: row["price"] for row in mill.rows("totals")}
    assert rows == {"tea": Decimal("6.00"), "rice": Decimal("10.00")}
    assert mill.explain("totals").table == "totals"
    assert mill.compact("orders") is not None
    assert mill.compaction("totals") is not None
    assert mill.run_maintenance().problems == ()
    assert mill.plan() == ()
    assert mill.infeasible_targets() == ()
    with pytest.raises(NotFound, match="no table 'nothing'"):
        mill.explain("nothing")


@pytest.mark.long  # tests/acceptance/test_runs.py calls them without a worker
def test_a_users_merge_function_is_called_by_the_worker(mill: IsolatedTidemill) -> None:
    for score in (3, 5, 4):
        mill.insert("scores", pa.table({"item": ["tea"], "score": [score]}))
    assert mill.rows("scores") == [{"item": "tea", "score": 5}]
    compacted = mill.compact("scores")
    assert compacted is not None
    assert (compacted.kind, compacted.seq, compacted.rows) == (BlockKind.BASE, 3, 1)
    assert mill.rows("scores") == [{"item": "tea", "score": 5}]


def test_a_run_whose_worker_ends_has_failed_for_that_reason(mill: IsolatedTidemill) -> None:
    run = execute(mill, "exits")
    assert (run.state, run.error) == (RunState.FAILED, "the worker process ended with status 3")
    assert run.lost_attempts == 0
    assert mill.rows("totals")


def test_a_document_is_registered_by_the_worker(mill: IsolatedTidemill) -> None:
    document = {
        "name": "cafe",
        "inputs": [{"name": "cups", "columns": "n int"}],
        "tables": [{"name": "cup_totals", "query": "SELECT sum(n) AS n FROM cups"}],
    }
    assert [change.name for change in mill.register(document) if change.noun == "flow"] == ["cup_totals"]
    mill.remove("cafe")


def test_the_server_itself_has_no_spark(mill: IsolatedTidemill) -> None:
    with pytest.raises(ConfigError, match="worker processes"):
        _ = mill.spark
    with pytest.raises(AttributeError, match="a server does not execute 'read_frame'"):
        mill.read("totals")


@pytest.mark.long  # tests/workers/test_pool.py raises such errors without Spark
def test_a_wrong_workflow_file_is_reported_by_apply(mill: IsolatedTidemill, tmp_path: Path) -> None:
    (tmp_path / "tidemill.toml").write_text(SETTINGS)
    (tmp_path / "workflow.py").write_text(WRONG)
    with IsolatedTidemill.open_server(tmp_path) as wrong, pytest.raises((WorkflowError, RunFailed), match="nowhere"):
        wrong.apply()
