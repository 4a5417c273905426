"""Compaction: write views as blocks, and find the files that a change does not touch."""

import re
from functools import reduce
from pathlib import Path
from urllib.parse import unquote

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemill.algebra.expression import quote_name
from tidemill.local.batch import Batch, build_arrow_schema
from tidemill.local.spark_types import parse_ddl, to_nullable_ddl
from tidemill.local.values import Unsupported
from tidemill.model.block import Block
from tidemill.model.change import Patch
from tidemill.model.schema import Schema
from tidemill.model.view import DeltaChain, Snapshot
from tidemill.spark.batches import ROW_GROUP_ROWS, write_table
from tidemill.spark.block_writer import build_data_path, save_and_count
from tidemill.spark.local_work import Locate
from tidemill.spark.types import build_columns

_FILE = "_tidemill_file"


def write_rows(rows: Batch, view: Snapshot | DeltaChain, directory: str, files: int) -> int | Unsupported:
    """Write the rows of a view on the driver; returns their number."""
    if not directory.startswith("/"):
        return Unsupported("the files are not on this machine")
    schema = view.schema if isinstance(view, Snapshot) else view.updates.build_delta_schema(view.schema)
    arrow = build_arrow_schema(parse_ddl(to_nullable_ddl(schema)))
    if rows.table.schema.types != arrow.types:
        return Unsupported("its types are not those of the channel")
    return write_table(rows.table.cast(arrow), Path(build_data_path(directory)), files)


def write_files(frame: DataFrame, directory: str, files: int, rows: int) -> int:
    """Write a frame that already has the block's columns; its rows were checked when they were first written.

    It writes about `files` files: a task that receives most of the `rows` writes more than one file. Otherwise the rows
    of a former single file would always be read by a single task. Returns the number of rows written.
    """
    options = {"maxRecordsPerFile": rows * 3 // (2 * files) + 1, "parquet.block.row.count.limit": ROW_GROUP_ROWS}
    return save_and_count(frame.coalesce(files), build_data_path(directory), **options)


def find_touched_files(spark: SparkSession, view: Snapshot, locate: Locate) -> frozenset[str]:
    """The paths of the base files with a key that the deltas touch; all of them, if Spark reports an unknown file."""
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

    def read_keys(block: Block, schema: Schema, *others: Column) -> DataFrame:
        rows = spark.read.schema(str(schema)).parquet(*(locate(f.path) for f in block.files))
        return rows.select(*build_columns(key), *others)

    rows = read_keys(base, base.schema, F.col("_metadata.file_path").alias(_FILE))
    deltas = (read_keys(d, d.updates.build_delta_schema(d.schema)) for d in view.deltas if d.files)
    keys = F.broadcast(reduce(DataFrame.union, deltas).distinct())
    is_equal = reduce(Column.__and__, (rows[quote_name(k)].eqNullSafe(keys[quote_name(k)]) for k in key))
    return rows.join(keys, is_equal, "left_semi").select(_FILE).distinct()


def _strip_scheme(path: str) -> str:
    """A path without its scheme: Spark writes file:///a where it was given /a."""
    return re.sub(r"^[A-Za-z0-9+.-]+:/+", "/", path)
