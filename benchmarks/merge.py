"""Cost of merging: a task that reads and writes one compacted block or many blocks (Nova, figures 3, 4)."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks.timing import time_alternately
from tidemill.model.block import Block, BlockKind, DataFile
from tidemill.model.change import DELETED, Upsert
from tidemill.model.schema import Schema
from tidemill.model.view import Snapshot
from tidemill.ports.engine import EngineLimits
from tidemill.spark.block_reader import BlockReader
from tidemill.spark.local_work import LocalWork
from tidemill.spark.session import start_session

SCHEMA = Schema.from_ddl("key bigint, name string, text string")
UPDATES = Upsert(("key",))
COUNTS = (1, 2, 5, 10, 20)
SHARES = (0.01, 0.1, 0.5, 1.0)
SIZES = {"large": 100_000, "small": 1_000}


def measure(
    directory: Path, *, rounds: int, sizes: dict[str, int], on_progress: Callable[[str], None]
) -> list[dict[str, Any]]:
    """A point for each size and number of blocks: seconds on compacted data, and merged by both methods.

    Keys are disjoint, so that all methods read and write the same rows. "touched" does not move the rows whose keys no
    delta touches; "shuffle" groups all rows by key.
    """
    spark = start_session()
    points = []
    for size, rows in sizes.items():
        blocks = [_create_block(spark, directory / size, number, rows) for number in range(max(COUNTS))]
        for count in COUNTS:
            on_progress(f"{size} blocks of {rows} rows: {count}")
            points.append(_measure_point(spark, directory, size, rows, blocks[:count], rounds))
    base = max(sizes.values()) * 10
    for share in SHARES:
        on_progress(f"one change of {share:.0%} to a block of {base} rows")
        points.append(_measure_change(spark, directory, base, share, rounds))
    return points


def _measure_change(spark: SparkSession, directory: Path, rows: int, share: float, rounds: int) -> dict[str, Any]:
    """Measure a base and one delta that updates every n-th of its keys."""
    base = _write_block(_generate_rows(spark, 0, rows), directory / f"base-{share}", 0, BlockKind.BASE, rows)
    touched = (
        _generate_rows(spark, 0, rows)
        .where(f"key % {round(1 / share)} = 0")
        .withColumn(DELETED, F.lit(None).cast("boolean"))
    )
    delta = _write_block(touched, directory / f"change-{share}", 1, BlockKind.DELTA, int(rows * share))
    return _measure_point(spark, directory, f"change {share:.0%}", rows, [base, delta], rounds, total_rows=rows)


def _measure_point(
    spark: SparkSession,
    directory: Path,
    size: str,
    rows: int,
    blocks: list[Block],
    rounds: int,
    total_rows: int | None = None,
) -> dict[str, Any]:
    compacted = _write_compacted_block(
        spark, directory / "compacted", blocks, total_rows or sum(b.rows for b in blocks)
    )
    merged = Snapshot("c", SCHEMA, blocks[-1].seq, blocks[0], tuple(blocks[1:]))
    output = directory / "output"

    def create_action(reader: BlockReader, view: Snapshot) -> Callable[[], None]:
        def store() -> None:
            shutil.rmtree(output, ignore_errors=True)
            reader.read_view(view).write.parquet(str(output))

        return store

    touched, shuffle = (
        BlockReader(spark, LocalWork(str, EngineLimits(content_rows=rows))) for rows in (0, sys.maxsize)
    )
    times = time_alternately(
        {
            "compacted": create_action(touched, Snapshot("c", SCHEMA, blocks[-1].seq, compacted)),
            "touched": create_action(touched, merged),
            "shuffle": create_action(shuffle, merged),
        },
        rounds,
    )
    return {
        "size": size,
        "rows_per_block": rows,
        "blocks": len(blocks),
        **{f"{method}_s": round(seconds, 4) for method, seconds in times.items()},
        "touched_ratio": round(times["touched"] / times["compacted"], 2),
        "shuffle_ratio": round(times["shuffle"] / times["compacted"], 2),
    }


def _generate_rows(spark: SparkSession, first: int, count: int) -> DataFrame:
    text = F.concat_ws(" ", *(F.sha2((F.col("id") * n).cast("string"), 256) for n in (3, 5, 7)))
    return spark.range(first, first + count, 1, 2).select(
        F.col("id").alias("key"), F.concat(F.lit("name"), "id").alias("name"), text.alias("text")
    )


def _create_block(spark: SparkSession, directory: Path, number: int, rows: int) -> Block:
    frame = _generate_rows(spark, number * rows, rows)
    kind = BlockKind.DELTA if number else BlockKind.BASE
    return _write_block(_to_delta(frame) if number else frame, directory / str(number), number, kind, rows)


def _to_delta(frame: DataFrame) -> DataFrame:
    return frame.withColumn(DELETED, F.lit(None).cast("boolean"))


def _write_compacted_block(spark: SparkSession, directory: Path, blocks: list[Block], rows: int) -> Block:
    shutil.rmtree(directory, ignore_errors=True)
    return _write_block(_generate_rows(spark, 0, rows), directory, blocks[-1].seq, BlockKind.BASE, rows)


def _write_block(frame: DataFrame, directory: Path, number: int, kind: BlockKind, rows: int) -> Block:
    frame.coalesce(1).write.parquet(str(directory))
    paths = sorted(directory.glob("*.parquet"))
    files = tuple(DataFile(str(p), rows // len(paths), p.stat().st_size) for p in paths)
    since = number - 1 if kind is BlockKind.DELTA else None
    return Block(number, "c", number, kind, SCHEMA, since, UPDATES, files)
