"""Compaction on Spark: writing views as blocks, and finding the files that a change leaves alone."""

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
from tidemill.spark.merge import union_frames
from tidemill.spark.types import build_columns, quote_name
from tidemill.spark.view_reader import Locate

_FILE = "_tidemill_file"

GROUP = 500_000
"""Rows that are read in one piece: of narrow rows a group of Parquet's own size would be a whole file."""


def write_files(frame: DataFrame, directory: str, files: int, rows: int) -> int:
    """Write a frame that has the block's columns already; its rows were checked when they were first written.

    So many files, about: where most of the rows, `rows` at most, come to one task, that writes more than one file.
    Otherwise what was once a single file would be read by a single task for ever. Returns the rows written.
    """
    options = {"maxRecordsPerFile": rows * 3 // (2 * files) + 1, "parquet.block.row.count.limit": GROUP}
    return save_and_count(frame.coalesce(files), build_data_path(directory), **options)


def find_touched_files(spark: SparkSession, view: Snapshot, locate: Locate) -> frozenset[str]:
    """The paths of those files of the base that hold a key which the deltas touch; NULL is a key like any other.

    Only key columns are read. Where Spark names a file in a way that is not understood, all count as touched.
    """
    if view.base is None:
        return frozenset()
    paths = {_strip_scheme(locate(f.path)): f.path for f in view.base.files}
    if any(isinstance(d.updates, Patch) for d in view.deltas):  # a patch may touch rows in any file
        return frozenset(paths.values())
    found = {_strip_scheme(unquote(row[0])) for row in _scan_touched_files(spark, view, view.base, locate).collect()}
    known = found <= paths.keys()
    return frozenset(paths[name] for name in found) if known else frozenset(paths.values())


def _scan_touched_files(spark: SparkSession, view: Snapshot, base: Block, locate: Locate) -> DataFrame:
    """The names, as Spark gives them, of base files with a touched key."""
    key = view.deltas[0].updates.key or base.schema.names
    rows = _read_blocks(spark, [base], base.schema, locate).select(
        *build_columns(key), F.col("_metadata.file_path").alias(_FILE)
    )
    keys = F.broadcast(
        union_frames([d.select(*build_columns(key)) for d in _read_deltas(spark, view, locate)]).distinct()
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


def _strip_scheme(place: str) -> str:
    """A path without its scheme: Spark writes file:///a where it was given /a."""
    return re.sub(r"^[A-Za-z0-9+.-]+:/+", "/", place)
