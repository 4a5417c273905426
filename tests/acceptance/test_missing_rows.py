"""Rows that were written elsewhere than where this process looks are an error, whoever wrote them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.acceptance.conftest import Open

import tidemill as tm
from tidemill.app.wiring import Tidemill
from tidemill.errors import RowsMissing
from tidemill.model.run import RunState
from tidemill.storage import LocalBlockStore

wf = tm.Workflow("shop")
wf.input("orders", "id bigint, word string")
wf.sql("totals", "SELECT word, count(*) AS n FROM orders GROUP BY word")


@wf.task
def copied(orders: tm.All) -> tm.Base:
    return orders


class Elsewhere:
    """Once `hidden`, what is written vanishes before it is published, as if it had been written to another disk."""

    def __init__(self, publish: Callable[..., Any]) -> None:
        self.hidden = False
        self.publish = publish

    def __call__(self, store: LocalBlockStore, directory: str, rows: int | None = None) -> Any:
        if self.hidden:
            for file in (store.root_path / directory).rglob("*.parquet"):
                file.unlink()
        return self.publish(store, directory, rows)


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> Elsewhere:
    made = Elsewhere(LocalBlockStore.publish_files)
    monkeypatch.setattr(LocalBlockStore, "publish_files", lambda *args: made(*args))
    return made


@pytest.mark.parametrize("by_driver", [False, True])
def test_every_writer_is_held_to_its_count(
    open_mill: Open, spark: SparkSession, elsewhere: Elsewhere, monkeypatch: pytest.MonkeyPatch, by_driver: bool
) -> None:
    if not by_driver:
        monkeypatch.setattr("tidemill.spark.local.batches.has_few_rows", lambda _blocks, _rows: False)
    mill = open_mill(wf)
    rows = spark.range(0, 100, 1, 3).selectExpr("id", "CAST(id % 7 AS STRING) AS word")
    mill.insert("orders", rows)
    mill.insert("orders", rows.limit(5))
    elsewhere.hidden = True
    writers = {
        "100 rows": lambda: mill.insert("orders", rows),
        "105 rows": lambda: mill.run("copied"),
        "7 rows": lambda: mill.run("totals"),
        "105 rows were": lambda: mill.compact("orders"),
    }
    for said, write in writers.items():
        with pytest.raises(RowsMissing, match=rf"{said}.*but 0 rows in 0 files are found there: Spark's executors"):
            write()
    assert {r.state for r in mill.catalog.list_runs(limit=4)} == {RunState.FAILED}
    assert [mill.catalog.read_channel(name).head.seq for name in ("orders", "copied", "totals")] == [2, 0, 0]
    elsewhere.hidden = False
    assert _rows(mill, spark) == {"copied": 105, "totals": 7}


def _rows(mill: Tidemill, spark: SparkSession) -> dict[str, int]:
    for flow in ("copied", "totals"):
        mill.run(flow)
    assert mill.insert("orders", spark.createDataFrame([], "id bigint, word string")).block.rows == 0
    return {name: mill.read(name).count() for name in ("copied", "totals")}
