"""The tables on channels of a project, the queries as tables kept fresh, and the same queries from scratch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

import tidemill as tm
from benchmarks.refresh import looked_at
from benchmarks.tpch.data import KEYS
from benchmarks.tpch.refreshes import deleted_orders, new_orders
from benchmarks.tpch.texts import text_of
from tidemill.app.wiring import Tidemill
from tidemill.errors import ConfigError
from tidemill.model.block import BlockKind
from tidemill.spark.types import read_schema

REFRESHES: Mapping[str, Callable[[DataFrame, DataFrame, float, int], dict[str, DataFrame]]] = {
    "RF1": new_orders,
    "RF2": deleted_orders,
}


def stored(spark: SparkSession, files: Mapping[str, Path]) -> dict[str, DataFrame]:
    return {table: spark.read.parquet(str(path)) for table, path in files.items()}


def workflow(tables: Mapping[str, DataFrame], queries: Mapping[str, int]) -> tm.Workflow:
    """Every table as an input with its key, and each named query as a table."""
    made = tm.Workflow("tpch")
    for table, rows in tables.items():
        made.input(table, str(read_schema(rows)), key=KEYS[table])
    for name, number in queries.items():
        made.sql(name, text_of(number))
    return made


def load(mill: Tidemill, tables: Mapping[str, DataFrame]) -> None:
    """The first content: bases, which need no merging."""
    for table, rows in tables.items():
        mill.insert(table, rows, kind=BlockKind.BASE)


def apply(mill: Tidemill, refresh: str, share: float, turn: int = 0) -> None:
    """Insert what the refresh makes of the orders as they are now; it must change something, or it measures nothing."""
    changes = REFRESHES[refresh](looked_at(mill, "orders"), looked_at(mill, "lineitem"), share, turn)
    for table, rows in changes.items():
        if mill.insert(table, rows).block.rows == 0:
            raise ConfigError(
                f"{refresh} of turn {turn + 1} finds no rows of {table} to change at a share of {share:g}; "
                "choose a larger scale or share, or, if the turns use up all orders, a smaller share or fewer rounds"
            )


@contextmanager
def named(tables: Mapping[str, DataFrame]) -> Iterator[None]:
    """Let Spark SQL know the tables by their names meanwhile."""
    for table, rows in tables.items():
        rows.createOrReplaceTempView(table)
    try:
        yield
    finally:
        _forget(tables)


def _forget(tables: Mapping[str, DataFrame]) -> None:
    for table, rows in tables.items():
        rows.sparkSession.catalog.dropTempView(table)


def from_scratch(tables: Mapping[str, DataFrame], number: int) -> DataFrame:
    """The query over the tables, by Spark alone."""
    with named(tables):
        return tables["orders"].sparkSession.sql(text_of(number))


def names(numbers: Sequence[int], suffix: str = "") -> dict[str, int]:
    """The tables' names of the queries of those numbers.

    >>> names([1, 22])
    {'q01': 1, 'q22': 22}
    """
    return {f"q{number:02}{suffix}": number for number in numbers}
