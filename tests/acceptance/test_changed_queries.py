"""Queries, schemas and inputs that change while tables are refreshed: the result is that of the registered workflow."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest
from pyspark.sql import DataFrame
from tests.acceptance.conftest import Open
from tests.marks import long

import tidemill as tm
from tidemill.app.wiring import Tidemill
from tidemill.errors import BadInput, Conflict, RunFailed
from tidemill.model.block import BlockKind
from tidemill.model.run import RunClaim, RunOutcome
from tidemill.runtime.freshness.planning import PlanningContext
from tidemill.runtime.runs.insert_batcher import SmallInsert


def totals(amount: str) -> tm.Workflow:
    wf = tm.Workflow("w")
    wf.input("sales", "city string, amount int")
    wf.sql("totals", f"SELECT city, sum({amount}) AS total FROM sales GROUP BY city")
    return wf


def insert(mill: Tidemill, tmp_path: Path, text: str) -> None:
    file = tmp_path / "sales.csv"
    file.write_text("city,amount\n" + text)
    mill.insert("sales", file)


def content(mill: Tidemill) -> dict[str, int]:
    return {row["city"]: row["total"] for row in mill.rows("totals")}


@pytest.mark.parametrize("runs_before", [long(0), 1])
def test_a_query_that_changes_while_it_runs_is_recomputed(
    open_mill: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, runs_before: int
) -> None:
    mill = open_mill(totals("amount"))
    insert(mill, tmp_path, "x,5\n")
    for _ in range(runs_before):
        mill.run("totals")
    commit, changed_mills = mill.catalog.runs.commit, list[Tidemill]()

    def apply_then_commit(claim: RunClaim, outcome: RunOutcome) -> object:
        changed_mills.append(open_mill(totals("amount * 10")))
        return commit(claim, outcome)

    monkeypatch.setattr(mill.catalog.runs, "commit", apply_then_commit)
    mill.run("totals")
    assert content(mill) == {"x": 5}
    (changed,) = changed_mills
    insert(changed, tmp_path, "x,1\ny,7\n")
    changed.run("totals")
    assert content(changed) == {"x": 60, "y": 70}
    insert(changed, tmp_path, "x,1\n")
    changed.run("totals")
    assert content(changed) == {"x": 70, "y": 70}


ALLOWED = {
    "added": ("a int, b string", "a int, b string, c date", '"a": 1, "b": "x"', {"a": 1, "b": "x", "c": None}),
    "dropped": ("a int, b string", "a int", '"a": 1', {"a": 1}),
    "moved": ("a int, b string", "b string, a int", '"a": 1, "b": "x"', {"b": "x", "a": 1}),
    "loosened": ("a int not null", "a int", '"a": 1', {"a": 1}),
    "widened": ("a int", "a bigint", '"a": 1', {"a": 1}),
    "as_double": ("a int", "a double", '"a": 1', {"a": 1.0}),
    "doubled": ("a float", "a double", '"a": 0.5', {"a": 0.5}),
    "dated": ("a date", "a timestamp_ntz", '"a": "2024-01-02"', {"a": datetime(2024, 1, 2)}),
}


@pytest.mark.parametrize(
    ("key", "cases"),
    [long(None, list(ALLOWED), id="append"), pytest.param("k", ["added", "dated"], id="upsert")],
)
def test_blocks_are_read_after_each_change_that_apply_allows(
    open_mill: Open, tmp_path: Path, key: str | None, cases: list[str]
) -> None:
    def workflow(version: int) -> tm.Workflow:
        wf = tm.Workflow("w")
        for name in cases:
            wf.input(name, f"k int, {ALLOWED[name][version]}", key=key)
        wf.sql("copy", "SELECT * FROM dated")
        return wf

    def insert(mill: Tidemill, number: int) -> None:
        lines = {name: f'{{"k": {number}, {ALLOWED[name][2]}}}' for name in cases}
        mill.insert_batcher.insert_all([SmallInsert(name, line.encode(), "jsonl") for name, line in lines.items()])

    old = open_mill(workflow(0))
    insert(old, 1)
    insert(old, 2)
    old.run("copy")
    new = open_mill(workflow(1))
    insert(new, 3)
    new.run("copy")
    for name in cases:
        row = ALLOWED[name][3]
        assert by_key(new, name) == {1: row, 2: row, 3: row}
    new.compact("dated")
    assert by_key(new, "copy") == by_key(new, "dated")
    assert not new.plan()


def by_key(mill: Tidemill, channel: str) -> dict[int, dict[str, object]]:
    return {row.pop("k"): row for row in mill.rows(channel)}


def test_a_column_that_no_query_reads_recomputes_nothing(open_mill: Open, tmp_path: Path) -> None:
    def workflow(columns: str) -> tm.Workflow:
        wf = tm.Workflow("w")
        wf.input("sales", columns)
        wf.sql("totals", "SELECT city, sum(amount) AS total FROM sales GROUP BY city")
        wf.sql("firsts", "SELECT city, amount, row_number() OVER (PARTITION BY city ORDER BY amount) AS n FROM sales")
        return wf

    old = open_mill(workflow("city string, amount int"))
    insert(old, tmp_path, "x,5\nx,1\n")
    for table in ("totals", "firsts"):
        old.run(table)
    new = open_mill(workflow("city string, amount int, note string"))
    assert new.catalog.channels.read_cursors() == old.catalog.channels.read_cursors()
    (tmp_path / "more.jsonl").write_text('{"city": "x", "amount": 3, "note": "n"}')
    new.insert("sales", tmp_path / "more.jsonl")
    for table in ("totals", "firsts"):
        new.run(table, variant="incremental")
    assert content(new) == {"x": 9}
    assert {row["amount"]: row["n"] for row in new.rows("firsts")} == {1: 1, 3: 2, 5: 3}


def workflow_with_task(columns: str, *, kind: str, reads: type) -> tm.Workflow:
    """A task without a declared schema, and a table over its result."""
    wf = tm.Workflow("w")
    wf.input("sales", "city string, amount int")

    def copy(sales: DataFrame) -> DataFrame:
        return sales.selectExpr(*columns.split(", "))

    copy.__annotations__ = {"sales": reads, "return": {"base": tm.Base, "delta": tm.Delta}[kind]}
    wf.task(copy)
    wf.sql("totals", "SELECT city, count(*) AS total FROM copy GROUP BY city")
    return wf


@pytest.mark.parametrize(("kind", "reads"), [("base", tm.All), long("delta", tm.New)])
def test_a_table_with_an_inferred_schema_gains_a_column(
    open_mill: Open, tmp_path: Path, kind: str, reads: type
) -> None:
    old = open_mill(workflow_with_task("city", kind=kind, reads=reads))
    insert(old, tmp_path, "x,5\n")
    old.run("copy")
    old.run("totals")
    new = open_mill(workflow_with_task("city, amount AS price", kind=kind, reads=reads))
    insert(new, tmp_path, "y,7\n")
    new.run("copy")
    new.run("totals")
    before = 5 if kind == "base" else None
    assert rows(new, "copy") == [{"city": "x", "price": before}, {"city": "y", "price": 7}]
    assert content(new) == {"x": 1, "y": 1}
    new.run("copy", variant="batch")
    assert rows(new, "copy") == [{"city": "x", "price": 5}, {"city": "y", "price": 7}]
    another = open_mill(workflow_with_task("city, cast(amount AS string) AS price", kind=kind, reads=reads))
    insert(another, tmp_path, "z,9\n")
    if kind == "delta":
        with pytest.raises(BadInput, match="cannot change column price from INT to STRING; compute it from scratch"):
            another.run("copy")
        another.run("copy", variant="batch")
    else:
        another.run("copy")
    another.run("totals")
    assert rows(another, "copy") == [{"city": c, "price": p} for c, p in (("x", "5"), ("y", "7"), ("z", "9"))]
    assert content(another) == {"x": 1, "y": 1, "z": 1}


def test_a_column_without_a_declared_type_cannot_return_with_another_one(open_mill: Open, tmp_path: Path) -> None:
    """Rows from before the column went away still have the first type."""
    mill = None
    for city, columns in (("x", "city, amount"), ("y", "city"), ("z", "city, cast(amount AS string) AS amount")):
        mill = open_mill(workflow_with_task(columns, kind="delta", reads=tm.New))
        insert(mill, tmp_path, f"{city},5\n")
        if city != "z":
            mill.run("copy")
    assert mill is not None
    with pytest.raises(BadInput, match="cannot change column amount from INT to STRING; compute it from scratch"):
        mill.run("copy")
    mill.run("copy", variant="batch")
    assert rows(mill, "copy") == [{"city": city, "amount": "5"} for city in "xyz"]


def test_rows_are_read_with_the_types_that_they_were_written_with(open_mill: Open, tmp_path: Path) -> None:
    def workflow(columns: str) -> tm.Workflow:
        wf = workflow_with_task(columns, kind="base", reads=tm.All)

        @wf.task
        def follow(copy: tm.New) -> tm.Delta:
            return copy.select("city")

        return wf

    mill = open_mill(workflow("city, 'n' || amount AS amount"))
    insert(mill, tmp_path, "x,5\n")
    mill.run("copy")
    mill.run("follow")
    mill = open_mill(workflow("city, amount"))
    mill.run("copy")
    assert rows(mill, "copy") == [{"city": "x", "amount": 5}]
    before = mill.catalog.channels.read("copy").head.seq - 1
    assert mill.rows("copy", str(before)) == [{"city": "x", "amount": "n5"}]
    with pytest.raises(RunFailed, match="channel copy was replaced, which changed column amount from STRING to INT"):
        mill.run("follow")
    mill.run("follow", variant="batch")
    assert rows(mill, "follow") == [{"city": "x"}]


def rows(mill: Tidemill, channel: str) -> list[dict[str, object]]:
    return sorted(mill.rows(channel), key=str)


def test_flows_continue_after_rows_were_deleted_permanently(open_mill: Open, tmp_path: Path) -> None:
    wf = tm.Workflow("w")
    wf.input("sales", "city string, amount int")
    wf.input("prices", "city string, amount int", key="city")
    wf.table("seen", "city string, amount int", key="city")
    wf.sql("totals", "SELECT city, sum(amount) AS total FROM sales GROUP BY city")
    wf.sql("listed", "SELECT city FROM sales WHERE amount > 1")

    @wf.task
    def copies(sales: tm.New) -> tm.Delta:
        return sales

    @wf.task(writes={"seen": tm.Delta, "met": tm.Delta})
    def first_seen(sales: tm.New, seen: tm.All) -> dict[str, DataFrame]:
        fresh = sales.dropDuplicates(["city"]).join(seen, "city", "left_anti").select("city", "amount")
        return {"seen": fresh, "met": fresh.select("city")}

    @wf.task
    def prices_of_sales(prices: tm.New, sales: tm.All) -> tm.Delta:
        return prices.where("NOT coalesce(_deleted, false)").join(sales, "city").select("city", prices["amount"])

    mill = open_mill(wf)
    insert(mill, tmp_path, "x,5\ny,7\n")
    (tmp_path / "prices.csv").write_text("city,amount\nx,1\ny,2\n")
    mill.insert("prices", tmp_path / "prices.csv")
    for flow in ("totals", "listed", "copies", "first_seen", "prices_of_sales"):
        mill.run(flow)
    (tmp_path / "corrected.csv").write_text("city,amount\ny,7\n")
    mill.insert("sales", tmp_path / "corrected.csv", kind=BlockKind.BASE)
    for flow in ("totals", "listed"):
        mill.run(flow)
    assert content(mill) == {"y": 7}
    assert rows(mill, "listed") == [{"city": "y"}]
    for flow in ("copies", "first_seen"):
        with pytest.raises(RunFailed, match="removed from append channel sales, but .* run FLOW --variant b") as caught:
            mill.run(flow)
        assert "x" not in str(caught.value).split("removed from")[1].replace("scratch", "")
        assert '"' not in str(caught.value)
        mill.run(flow, variant="batch")
    mill.run("prices_of_sales", variant="batch")
    insert(mill, tmp_path, "z,9\n")
    for flow in ("totals", "listed", "copies", "first_seen", "prices_of_sales"):
        mill.run(flow)
    assert content(mill) == {"y": 7, "z": 9}
    assert rows(mill, "copies") == rows(mill, "seen") == rows(mill, "sales")
    assert rows(mill, "met") == [{"city": "y"}, {"city": "z"}]
    assert rows(mill, "prices_of_sales") == [{"city": "y", "amount": 2}]


def test_windows_are_formed_from_scratch_where_rows_were_deleted(open_mill: Open, tmp_path: Path) -> None:
    wf = tm.Workflow("w")
    wf.input("sales", "city string, amount int")
    wf.window("pairs", "sales", "2 tokens", "2 tokens", by=["city"], sums=["amount"])
    mill = open_mill(wf)

    def totals() -> list[object]:
        return sorted(row["amount"] for row in mill.rows("pairs"))

    insert(mill, tmp_path, "x,1\nx,2\nx,3\n")
    mill.run("pairs")
    assert totals() == [3]
    (tmp_path / "corrected.csv").write_text("city,amount\nx,2\nx,3\nx,4\n")
    mill.insert("sales", tmp_path / "corrected.csv", kind=BlockKind.BASE)
    with pytest.raises(RunFailed, match="removed from append channel sales"):
        mill.run("pairs")
    mill.run("pairs", variant="batch")
    assert totals() == [5]
    insert(mill, tmp_path, "x,5\n")
    mill.run("pairs")
    assert totals() == [5, 9]


def test_an_outdated_plan_is_not_executed(open_mill: Open, tmp_path: Path) -> None:
    mill = open_mill(totals("amount"))
    insert(mill, tmp_path, "x,5\n")
    mill.run("totals")
    insert(mill, tmp_path, "x,1\n")
    context = PlanningContext(mill.catalog, {}, mill.project.workflows[0])
    planned, choices = context.choose_variants(mill.workflows.find_applied_binding("totals"), "incremental")
    assert choices["totals"].mode == "incremental"
    mill.run("totals", variant="recompute")
    insert(mill, tmp_path, "x,2\n")
    with pytest.raises(Conflict, match="state of 'totals' was dropped since this run was planned; run it again"):
        mill.executor.run_flow(planned, {})
    mill.run("totals")
    assert content(mill) == {"x": 8}
