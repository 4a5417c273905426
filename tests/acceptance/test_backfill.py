"""A backfill on Spark next to live runs: live runs do not wait for it, and both produce the right content."""

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

BACKFILL_STARTED, LIVE_RUNS_DONE = threading.Event(), threading.Event()


def workflow() -> tm.Workflow:
    wf = tm.Workflow("shop")
    wf.input("orders", "item string, price int")
    wf.sql("totals", "SELECT item, sum(price) AS price FROM orders GROUP BY item", triggers=[tm.on("orders")])

    @wf.task
    def history(orders: tm.All) -> tm.Base:
        return copy_after_live_runs(orders)

    return wf


def copy_after_live_runs(orders: DataFrame) -> DataFrame:
    BACKFILL_STARTED.set()
    assert LIVE_RUNS_DONE.wait(60)
    return orders


def insert_order(mill: Tidemill, item: str, price: int) -> None:
    mill.insert("orders", [{"item": item, "price": price}])


def read_total(mill: Tidemill) -> int:
    """Zero before the first refresh."""
    has_run = mill.catalog.channels.read("totals").channel.schema is not None
    return sum(row["price"] for row in mill.rows("totals")) if has_run else 0


def wait_until(is_true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not is_true():
        assert time.monotonic() < deadline, "timed out"
        time.sleep(0.02)


def list_finished_runs(mill: Tidemill, flow: str) -> list[Run]:
    return mill.catalog.runs.list(subject=flow, state=RunState.FINISHED)


def read_times(run: Run) -> tuple[float, float]:
    assert run.started is not None
    assert run.finished is not None
    return run.started, run.finished


def test_live_tables_do_not_wait_for_a_backfill(open_mill: Open) -> None:
    mill = open_mill(workflow())
    insert_order(mill, "tea", 3)
    with run_server(mill, tracks=1):
        try:
            backfill_run = request_flow_run(mill.catalog, "history", backfill=True)
            assert BACKFILL_STARTED.wait(60)
            for price, ordered in ((4, 7), (5, 12)):
                insert_order(mill, "tea", price)
                wait_until(lambda ordered=ordered: read_total(mill) == ordered)
        finally:
            LIVE_RUNS_DONE.set()
        wait_until(lambda: mill.catalog.runs.read(backfill_run.id).finished is not None)
        second_backfill = request_flow_run(mill.catalog, "totals", backfill=True)
        wait_until(lambda: mill.catalog.runs.read(second_backfill.id).finished is not None)
    backfill = mill.catalog.runs.read(backfill_run.id)
    began, ended = read_times(backfill)
    assert backfill.state is RunState.FINISHED
    assert sum(began < start and end < ended for start, end in map(read_times, list_finished_runs(mill, "totals"))) >= 2
    assert mill.rows("history") == [{"item": "tea", "price": 3}]  # the content at its start
    assert mill.rows("totals") == [{"item": "tea", "price": 12}]  # recomputed: the same content
