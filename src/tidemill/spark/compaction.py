"""Compaction on Spark: write views as blocks, and find the files that a change does not touch."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import reduce
from urllib.parse import unquote

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemill.model.block import Block
from tidemill.model.change import Patch
from tidemill.model.schema import Schema
from tidemill.model.view import Snapshot
from tidemill.spark.block_writer import build_data_path, save_and_count
from tidemill.spark.local_work import Locate
from tidemill.spark.types import build_columns, quote_name

_FILE = "_tidemill_file"

ROW_GROUP_ROWS = 500_000
"""Rows of a Parquet row group: with Parquet's default size, a file of narrow rows would be a single group."""


def write_files(frame: DataFrame, directory: str, files: int, rows: int) -> int:
    """Write a frame that already has the block's columns; its rows were checked when they were first written.

    It writes about `files` files: a task that receives most of the `rows` writes more than one file. Otherwise the rows
    of a former single file would always be read by a single task. Returns the number of rows written.
    """
    options = {"maxRecordsPerFile": rows * 3 // (2 * files) + 1, "parquet.block.row.count.limit": ROW_GROUP_ROWS}
    return save_and_count(frame.coalesce(files), build_data_path(directory), **options)


def find_touched_files(spark: SparkSession, view: Snapshot, locate: Locate) -> frozenset[str]:
    """The paths of the base files that contain a key which the deltas touch; NULL is a key like any other.

    Only key columns are read. If Spark reports an unknown file name, all files count as touched.
    """
    if view.base is None:
        return frozenset()
    paths = {_strip_scheme(locate(f.path)): f.path for f in view.base.files}
    if any(isinstance(d.updates, Patch) for d in view.deltas):  # a patch may touch rows in any file
        return frozenset(paths.values())
    touched = {_strip_scheme(unquote(row[0])) for row in _scan_touched_files(spark, view, view.base, locate).collect()}
    all_known = touched <= paths.keys()
    return frozenset(paths[name] for name in touched) if all_known else frozenset(paths.values())


def _scan_touched_files(spark: SparkSession, view: Snapshot, base: Block, locate: Locate) -> DataFrame:
    """The names, as Spark reports them, of base files with a touched key."""
    key = view.deltas[0].updates.key or base.schema.names
    rows = _read_blocks(spark, [base], base.schema, locate).select(
        *build_columns(key), F.col("_metadata.file_path").alias(_FILE)
    )
    keys = F.broadcast(
        reduce(DataFrame.union, (d.select(*build_columns(key)) for d in _read_deltas(spark, view, locate))).distinct()
    )
    return (
        rows.join(keys, _match_keys(rows, keys, base.schema.select_fields(key)), "left_semi").select(_FILE).distinct()
    )


def _read_deltas(spark: SparkSession, view: Snapshot, locate: Locate) -> list[DataFrame]:
    return [_read_blocks(spark, [d], d.updates.build_delta_schema(d.schema), locate) for d in view.deltas if d.files]


def _read_blocks(spark: SparkSession, blocks: Iterable[Block], schema: Schema, locate: Locate) -> DataFrame:
    return spark.read.schema(str(schema)).parquet(*(locate(f.path) for b in blocks for f in b.files))


def _match_keys(left: DataFrame, right: DataFrame, key: Schema) -> Column:
    return reduce(Column.__and__, (left[quote_name(k)].eqNullSafe(right[quote_name(k)]) for k in key.names))


def _strip_scheme(path: str) -> str:
    """A path without its scheme: Spark writes file:///a where it was given /a."""
    return re.sub(r"^[A-Za-z0-9+.-]+:/+", "/", path)
