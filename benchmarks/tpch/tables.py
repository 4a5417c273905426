"""TPC-H tables as channels of a project, its queries as derived tables, and the same queries in plain Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

import tidemill as tm
from benchmarks.refresh import read_content
from benchmarks.tpch.data import KEYS
from benchmarks.tpch.refreshes import create_deletions, create_new_orders
from benchmarks.tpch.texts import get_text
from tidemill.app.wiring import Tidemill
from tidemill.errors import ConfigError
from tidemill.model.block import BlockKind
from tidemill.spark.types import from_struct

REFRESHES: Mapping[str, Callable[[DataFrame, DataFrame, float, int], dict[str, DataFrame]]] = {
    "RF1": create_new_orders,
    "RF2": create_deletions,
}


def read_tables(spark: SparkSession, files: Mapping[str, Path]) -> dict[str, DataFrame]:
    return {table: spark.read.parquet(str(path)) for table, path in files.items()}


def build_workflow(tables: Mapping[str, DataFrame], queries: Mapping[str, int]) -> tm.Workflow:
    """Every table as an input with its key, and each named query as a table."""
    spec = tm.Workflow("tpch")
    for table, rows in tables.items():
        spec.input(table, str(from_struct(rows.schema)), key=KEYS[table])
    for name, number in queries.items():
        spec.sql(name, get_text(number))
    return spec


def load(mill: Tidemill, tables: Mapping[str, DataFrame]) -> None:
    """Insert the initial content as bases, which need no merging."""
    for table, rows in tables.items():
        mill.insert(table, rows, kind=BlockKind.BASE)


def apply(mill: Tidemill, refresh: str, share: float, turn: int = 0) -> None:
    """Apply a refresh function to the current orders; raises ConfigError if it changes nothing."""
    changes = REFRESHES[refresh](read_content(mill, "orders"), read_content(mill, "lineitem"), share, turn)
    for table, rows in changes.items():
        if mill.insert(table, rows).block.rows == 0:
            raise ConfigError(
                f"{refresh} of turn {turn + 1} finds no rows of {table} to change at a share of {share:g}; "
                "choose a larger scale or share, or, if the turns use up all orders, a smaller share or fewer rounds"
            )


@contextmanager
def register_views(tables: Mapping[str, DataFrame]) -> Iterator[None]:
    """Register the tables as temporary views of Spark SQL."""
    for table, rows in tables.items():
        rows.createOrReplaceTempView(table)
    try:
        yield
    finally:
        _drop_views(tables)


def _drop_views(tables: Mapping[str, DataFrame]) -> None:
    for table, rows in tables.items():
        rows.sparkSession.catalog.dropTempView(table)


def compute_query(tables: Mapping[str, DataFrame], number: int) -> DataFrame:
    """The query over the tables, in plain Spark."""
    with register_views(tables):
        return tables["orders"].sparkSession.sql(get_text(number))


def get_table_names(numbers: Sequence[int], suffix: str = "") -> dict[str, int]:
    """The names of the queries' tables, with their numbers.

    >>> get_table_names([1, 22])
    {'q01': 1, 'q22': 22}
    """
    return {f"q{number:02}{suffix}": number for number in numbers}
