"""A backfill on Spark, beside live runs: those do not wait for it, and both come to the right content."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from benchmarks.refresh import run_server
from pyspark.sql import DataFrame
from tests.acceptance.conftest import Open

import tidemill as tm
from tidemill.app.wiring import Tidemill
from tidemill.model.run import Run, RunState
from tidemill.runtime.runs.requests import request_flow_run

BEGUN, LIVE_IS_THROUGH = threading.Event(), threading.Event()


def workflow() -> tm.Workflow:
    wf = tm.Workflow("shop")
    wf.input("orders", "item string, price int")
    wf.sql("totals", "SELECT item, sum(price) AS price FROM orders GROUP BY item", triggers=[tm.on("orders")])

    @wf.task
    def history(orders: tm.All) -> tm.Base:
        return held(orders)

    return wf


def held(orders: DataFrame) -> DataFrame:
    BEGUN.set()
    assert LIVE_IS_THROUGH.wait(60)
    return orders


def order(mill: Tidemill, item: str, price: int) -> None:
    mill.insert("orders", mill.engine.spark.createDataFrame([(item, price)], "item string, price int"))


def total(mill: Tidemill) -> int:
    """Nothing, before the first refresh."""
    known = mill.catalog.read_channel("totals").channel.schema is not None
    return sum(row["price"] for row in mill.rows("totals")) if known else 0


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline, "it took too long"
        time.sleep(0.02)


def finished(mill: Tidemill, flow: str) -> list[Run]:
    return mill.catalog.list_runs(subject=flow, state=RunState.FINISHED)


def times(run: Run) -> tuple[float, float]:
    assert run.started is not None
    assert run.finished is not None
    return run.started, run.finished


def test_live_tables_do_not_wait_for_a_backfill(open_mill: Open) -> None:
    mill = open_mill(workflow())
    order(mill, "tea", 3)
    with run_server(mill, tracks=1):
        try:
            asked = request_flow_run(mill.catalog, "history", backfill=True)
            assert BEGUN.wait(60)
            for price, ordered in ((4, 7), (5, 12)):
                order(mill, "tea", price)
                until(lambda ordered=ordered: total(mill) == ordered)
        finally:
            LIVE_IS_THROUGH.set()
        until(lambda: mill.catalog.read_run(asked.id).finished is not None)
        again = request_flow_run(mill.catalog, "totals", backfill=True)
        until(lambda: mill.catalog.read_run(again.id).finished is not None)
    backfill = mill.catalog.read_run(asked.id)
    began, ended = times(backfill)
    assert backfill.state is RunState.FINISHED
    assert sum(began < start and end < ended for start, end in map(times, finished(mill, "totals"))) >= 2
    assert mill.rows("history") == [{"item": "tea", "price": 3}]  # what there was when it began
    assert mill.rows("totals") == [{"item": "tea", "price": 12}]  # computed anew, the same
