"""The queries of TPC-H as tables, refreshed incrementally while orders are added and deleted.

`make search` runs them on Spark as the product starts it, has more rows, and refreshes after each kind of change.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from benchmarks import tpch
from benchmarks.refresh import refresh
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from tests.acceptance.conftest import Open

from tidemill.algebra.program import RefreshMode
from tidemill.app.wiring import Tidemill
from tidemill.model.change import Rows

SEARCH = "TIDEMILL_EXAMPLES" in os.environ
SCALE = 0.01 if SEARCH else 0.004
CHANGES = (*tpch.REFRESHES, "supplies")
ROUNDS = tuple((change,) for change in CHANGES) if SEARCH else (CHANGES,)
SHARE = 0.3
UNCHANGED = frozenset(tpch.get_table_names([2, 8, 17, 18, 20, 21]))  # at this scale no change reaches their few rows
QUERIES = tpch.get_table_names(tpch.NUMBERS)

Bag = Counter[tuple[Any, ...]]


@pytest.mark.timeout(3600)
def test_every_query_stays_right_while_orders_are_added_and_deleted(
    spark: SparkSession, open_mill: Open, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if SEARCH:
        request.getfixturevalue("shipped_settings")
    tables = _reduce(tpch.read_tables(spark, tpch.generate(tmp_path / "tables", SCALE)))
    mill = open_mill(tpch.build_workflow(tables, QUERIES))
    tpch.load(mill, tables)
    before = _refresh_all(mill, None)
    unchanged = set(QUERIES)
    for changes in ROUNDS:
        for change in changes:
            _apply_change(mill, change)
        for channel in ("orders", "lineitem"):  # for speed: otherwise each of the 22 queries merges them
            mill.compact(channel)
        after = _refresh_all(mill, RefreshMode.INCREMENTAL)
        now = {table: mill.read(table) for table in tables}
        results = {name: tpch.compute_query(now, number).toArrow() for name, number in QUERIES.items()}
        expected = {name: _build_bag(result.to_pylist()) for name, result in results.items()}
        assert [name for name in QUERIES if after[name] != expected[name]] == []
        unchanged -= {name for name in QUERIES if before[name] != after[name]}
        before = after
    assert unchanged <= UNCHANGED  # a query whose result never changed proves little


def _apply_change(mill: Tidemill, change: str) -> None:
    """A refresh of TPC-H or, for the queries that do not read orders, changed costs and deleted offers of parts."""
    if change in tpch.REFRESHES:
        tpch.apply(mill, change, SHARE)
        return
    offers = mill.read("partsupp").withColumn("_deleted", F.expr("ps_partkey % 3 = 0"))
    cheaper = F.expr("CAST(ps_supplycost * 0.7 AS DECIMAL(15, 2))")
    mill.insert("partsupp", offers.where("ps_suppkey % 3 = 0").withColumn("ps_supplycost", cheaper))


def _reduce(tables: Mapping[str, DataFrame]) -> dict[str, DataFrame]:
    """Every second order, for speed, and one offer of a part by a supplier: with ten suppliers some have two."""
    orders, lineitem = tables["orders"].where("o_orderkey % 2 = 0"), tables["lineitem"].where("l_orderkey % 2 = 0")
    offers = tables["partsupp"].dropDuplicates(["ps_partkey", "ps_suppkey"])
    return {**tables, "orders": orders, "lineitem": lineitem, "partsupp": offers}


def _refresh_all(mill: Tidemill, variant: str | None) -> dict[str, Bag]:
    for name in QUERIES:
        refresh(mill, name, variant)
    return {name: _build_bag(mill.rows(name)) for name in QUERIES}


def _build_bag(rows: Rows) -> Bag:
    """Decimals are compared exactly, doubles to nine places."""
    return Counter(tuple(round(v, 9) if isinstance(v, float) else v for v in row.values()) for row in rows)
