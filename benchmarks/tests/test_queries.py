"""The measurement of TPC-H's queries, with one of them; tests/acceptance/test_tpch.py runs all."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import sqlglot
from benchmarks import tpch
from benchmarks.queries import measure
from benchmarks.refresh import open_project
from benchmarks.tpch import texts
from pyspark.sql import SparkSession
from sqlglot import exp

from tidemill.errors import ConfigError


@pytest.mark.skipif("TIDEMILL_EXAMPLES" not in os.environ, reason="most of a minute; `make search` runs it")
def test_a_point_for_each_query(spark: SparkSession, tmp_path: Path) -> None:
    messages: list[str] = []
    document = measure(tmp_path, scale=0.01, only=[6], share=0.05, warm_up=0, on_progress=messages.append)
    (point,) = document["points"]
    assert (point["query"], point["variants"], point["equal"]) == (6, "batch, recompute, incremental", True)
    assert point["speedup"] == pytest.approx(point["recompute_s"] / point["refresh_s"], rel=0.05)
    assert "forced_variant" not in point
    assert [line.partition(",")[0] for line in messages if line.startswith("RF")] == ["RF1", "RF2"]


def test_refresh_functions_insert_new_orders_and_delete_others(spark: SparkSession, tmp_path: Path) -> None:
    tables = tpch.read_tables(spark, tpch.generate(tmp_path, 0.001))
    orders, lineitem = tables["orders"], tables["lineitem"]
    keys = {r["o_orderkey"] for r in orders.collect()}
    insertions, deletions = (tpch.REFRESHES[name](orders, lineitem, 0.1, 0) for name in ("RF1", "RF2"))
    inserted = {r["o_orderkey"] for r in insertions["orders"].collect()}
    deleted = {r["o_orderkey"] for r in deletions["orders"].collect()}
    assert 100 < len(inserted) < 200
    assert 100 < len(deleted) < 200
    assert not inserted & keys
    assert deleted <= keys
    assert {r["l_orderkey"] for r in insertions["lineitem"].collect()} == inserted
    assert {r["l_orderkey"] for r in deletions["lineitem"].collect()} == deleted
    assert all(r["_deleted"] for r in deletions["lineitem"].collect())


def test_each_turn_changes_other_orders(spark: SparkSession, tmp_path: Path) -> None:
    tables = tpch.read_tables(spark, tpch.generate(tmp_path, 0.001))
    orders, lineitem = tables["orders"], tables["lineitem"]
    deleted = [
        {r["o_orderkey"] for r in tpch.REFRESHES["RF2"](orders, lineitem, 0.1, turn)["orders"].collect()}
        for turn in range(3)
    ]
    assert all(deleted)
    assert len(set.union(*deleted)) == sum(map(len, deleted))


def test_a_refresh_function_that_changes_nothing_fails(spark: SparkSession, tmp_path: Path) -> None:
    tables = tpch.read_tables(spark, tpch.generate(tmp_path / "data", 0.001))
    orders = {table: tables[table] for table in ("orders", "lineitem")}
    with open_project(tmp_path / "project", tpch.build_workflow(orders, {})) as mill:
        tpch.load(mill, orders)
        with pytest.raises(ConfigError, match="RF1 of turn 2 finds no rows of orders to change at a share of 1"):
            tpch.apply(mill, "RF1", 1.0, turn=1)


def test_every_query_is_spark_sql_with_a_name_for_each_column() -> None:
    for number in tpch.NUMBERS:
        (tree,) = sqlglot.parse(tpch.get_text(number), dialect="spark")
        assert isinstance(tree, exp.Select)
        assert all(tree.named_selects)


def test_the_texts_are_found_without_importing_their_package() -> None:
    code = "import sys; from benchmarks.tpch.texts import get_text; get_text(1); assert 'ibis' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(("package", "message"), [("no_such_package", "is not installed"), ("json", "is without them")])
def test_without_the_texts_the_error_names_the_package(
    monkeypatch: pytest.MonkeyPatch, package: str, message: str
) -> None:
    monkeypatch.setattr(texts, "_PACKAGE", package)
    texts.get_text.cache_clear()
    with pytest.raises(ConfigError, match=f"ibis-framework, which {message}; run `make setup`"):
        texts.get_text(1)


def test_without_the_generator_the_error_names_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match="run `make setup`"):
        tpch.generate(tmp_path, 0.001)


def test_the_error_contains_the_message_of_the_generator(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="did not generate the TPC-H tables at scale 0.001: .+"):
        tpch.generate(tmp_path / "file", 0.001)
