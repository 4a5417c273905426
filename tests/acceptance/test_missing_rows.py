"""Rows that are missing at the place where this process reads are an error, for every writer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.acceptance.conftest import Open
from tests.marks import long

import tidemill as tm
from tidemill.app.wiring import Tidemill
from tidemill.errors import RowsMissing
from tidemill.model.run import RunState
from tidemill.ports.engine import EngineLimits
from tidemill.storage.local import LocalBlockStore

wf = tm.Workflow("shop")
wf.input("orders", "id bigint, word string")
wf.sql("totals", "SELECT word, count(*) AS n FROM orders GROUP BY word")


@wf.task
def copies(orders: tm.All) -> tm.Base:
    return orders


class MissingWrites:
    """While `hidden`, deletes written files before they are published, as if they had been written to another disk."""

    def __init__(self, publish: Callable[..., Any]) -> None:
        self.hidden = False
        self.publish = publish

    def __call__(self, store: LocalBlockStore, directory: str, rows: int | None = None) -> Any:
        if self.hidden:
            for file in (store.root_path / directory).rglob("*.parquet"):
                file.unlink()
        return self.publish(store, directory, rows)


@pytest.fixture
def missing_writes(monkeypatch: pytest.MonkeyPatch) -> MissingWrites:
    missing = MissingWrites(LocalBlockStore.publish_files)
    monkeypatch.setattr(LocalBlockStore, "publish_files", lambda *args: missing(*args))
    return missing


@pytest.mark.parametrize("is_local", [False, long(True)])
def test_every_writer_checks_its_row_count(
    open_mill: Open, spark: SparkSession, missing_writes: MissingWrites, monkeypatch: pytest.MonkeyPatch, is_local: bool
) -> None:
    if not is_local:
        limits = EngineLimits(is_local=False, relation_rows=0, single_task_rows=0)
        monkeypatch.setattr("tidemill.app.wiring.build_limits", lambda _settings: limits)
    monkeypatch.setattr(RowsMissing, "retry_in", 0.0)  # seconds between attempts
    mill = open_mill(wf)
    rows = spark.range(0, 100, 1, 3).selectExpr("id", "CAST(id % 7 AS STRING) AS word")
    mill.insert("orders", rows)
    mill.insert("orders", rows.limit(5))
    missing_writes.hidden = True
    writers = {
        "100 rows": lambda: mill.insert("orders", rows),
        "105 rows": lambda: mill.run("copies"),
        "7 rows": lambda: mill.run("totals"),
        "105 rows were": lambda: mill.compact("orders"),
    }
    for message, write in writers.items():
        with pytest.raises(RowsMissing, match=rf"{message}.*but 0 rows in 0 files are found there: Spark's executors"):
            write()
    assert {r.state for r in mill.catalog.runs.list(limit=4)} == {RunState.FAILED}
    assert [mill.catalog.channels.read(name).head.seq for name in ("orders", "copies", "totals")] == [2, 0, 0]
    missing_writes.hidden = False
    assert _run_and_count(mill, spark) == {"copies": 105, "totals": 7}


def _run_and_count(mill: Tidemill, spark: SparkSession) -> dict[str, int]:
    for flow in ("copies", "totals"):
        mill.run(flow)
    assert mill.insert("orders", spark.createDataFrame([], "id bigint, word string")).block.rows == 0
    return {name: mill.read(name).count() for name in ("copies", "totals")}
