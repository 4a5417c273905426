"""Every ALL, NEW and OLD view of a random history on Spark equals the plain-Python reference."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import reduce
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from _pytest.mark import ParameterSet
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from tests.marks import long
from tests.oracle.histories import KINDS, PLAIN, History, histories, replay

from tidemill.algebra import reference
from tidemill.local.batch import Batch
from tidemill.local.engine import LocalEngine
from tidemill.local.values import Unsupported
from tidemill.model.block import DataFile
from tidemill.model.change import DELETED, Append, Rows, Signed, Updates, Upsert
from tidemill.model.schema import Schema
from tidemill.model.view import DeltaChain, SnapshotDiff, View, build_chain, build_snapshot
from tidemill.ports.engine import EngineLimits
from tidemill.spark.block_reader import BlockReader
from tidemill.spark.local_work import LocalWork

EXAMPLES = max(1, int(os.environ.get("TIDEMILL_EXAMPLES", "16")) // 16)
_numbers = count()


def _mark_case(name: str, little: bool) -> ParameterSet:
    """`make test-long` also computes the other kinds as Spark does for large contents."""
    mark = pytest.param if little or name in ("upsert", "patch") else long
    return mark(name, little, id=f"{name}-{'little' if little else 'much'}")


@pytest.mark.parametrize(("name", "little"), [_mark_case(name, little) for name in KINDS for little in (True, False)])
@settings(max_examples=EXAMPLES)
@given(data=st.data())
def test_every_view_equals_the_reference(
    name: str,
    little: bool,
    data: st.DataObject,
    spark: SparkSession,
    tmp_path: Path,
) -> None:
    is_local = data.draw(st.booleans(), label="the driver reads blocks")
    limits = EngineLimits(is_local, content_rows=0 if little else 1_000_000)
    reader = BlockReader(spark, LocalWork(str, limits))
    directory = tmp_path / str(next(_numbers))
    directory.mkdir()

    def write(number: int, rows: Rows, schema: Schema) -> tuple[DataFile, ...]:
        return _write_file(spark, directory / f"{number}.parquet", rows, schema)

    history = replay(*data.draw(histories(*KINDS[name], most=4)), write)
    views = list(_views(history))
    results = _read_all(reader, views)
    for (label, view), rows in zip(views, results, strict=True):
        _check(history, label, view, rows)


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("updates", [Append(), Signed(), Upsert(("k", "s"))], ids=lambda updates: updates.name)
@settings(max_examples=4 * EXAMPLES)
@given(data=st.data())
def test_every_view_computed_on_the_driver_equals_the_reference(
    updates: Updates, data: st.DataObject, spark: SparkSession, tmp_path: Path
) -> None:
    directory = tmp_path / str(next(_numbers))
    directory.mkdir()
    history = replay(
        *data.draw(histories(updates, PLAIN)),
        lambda number, rows, schema: _write_file(spark, directory / f"{number}.parquet", rows, schema),
    )
    content_rows = data.draw(st.sampled_from([0, 1_000_000]), label="rows of a content that is not grouped")
    read_rows = data.draw(st.sampled_from([0, 8_000]), label="rows that are read before the statement")
    work = LocalWork(str, EngineLimits(content_rows=content_rows, relation_rows=read_rows, driver_memory=64 << 20))
    for label, view in _views(history):
        rows = _read_locally(work, view)
        if isinstance(rows, Batch):
            _check(history, label, view, rows.table.to_pylist())
        else:
            assert isinstance(view, SnapshotDiff)
    work.close()


def _read_locally(work: LocalWork, view: View) -> Batch | Unsupported:
    engine = LocalEngine(work.database, work.read_leaf)
    return engine.try_execute(work.expansion.expand_view(view))


def _views(history: History) -> Iterator[tuple[tuple[int, int] | int, View]]:
    for at in history.points:
        yield at, build_snapshot("c", history.schema, history.blocks, at)
    for since, upto in ((i, j) for i in history.points for j in history.points if i <= j):
        deltas = build_chain("c", history.schema, history.updates, history.blocks, since, upto)
        before = build_snapshot("c", history.schema, history.blocks, since)
        after = build_snapshot("c", history.schema, history.blocks, upto)
        yield (since, upto), deltas or SnapshotDiff(before, after, history.updates)


def _check(history: History, label: tuple[int, int] | int, view: View, rows: Rows) -> None:
    if isinstance(label, int):
        assert reference.is_same_bag(rows, history.content[label]), f"ALL at {label}"
        return
    since, upto = label
    assert reference.is_same_bag(
        reference.merge_rows(history.updates, history.content[since], rows), history.content[upto]
    )
    if isinstance(view, DeltaChain):
        expected = history.chained.get(label, [])
        assert reference.is_same_bag(map(_normalize, rows), map(_normalize, expected)), f"NEW {since} -> {upto}"


def _normalize(row: dict[str, Any]) -> dict[str, Any]:
    return {k: bool(v) if k == DELETED else v for k, v in row.items()}


def _read_all(reader: BlockReader, views: list[tuple[Any, View]]) -> list[Rows]:
    """Read the rows of all views with one Spark job: each in a separate column, tagged with its number."""
    frames = [reader.read_view(view) for _, view in views]
    shapes = {f.schema.simpleString(): f.schema for f in frames}
    names = {shape: f"s{i}" for i, shape in enumerate(shapes)}
    boxed = [
        f.select(
            F.lit(i).alias("view"),
            *(
                (F.struct(*f.columns) if shape == f.schema.simpleString() else F.lit(None).cast(schema)).alias(
                    names[shape]
                )
                for shape, schema in shapes.items()
            ),
        )
        for i, f in enumerate(frames)
    ]
    rows: list[Rows] = [[] for _ in frames]
    for record in reduce(DataFrame.union, boxed).toArrow().to_pylist():
        rows[record["view"]].append(next(record[n] for n in names.values() if record[n] is not None))
    return rows


def _write_file(spark: SparkSession, path: Path, rows: Rows, schema: Schema) -> tuple[DataFile, ...]:
    if not rows:
        return ()
    arrow = _build_arrow_schema(spark, schema)
    pq.write_table(pa.Table.from_pylist(rows, schema=arrow), path)
    return (DataFile(str(path), len(rows), path.stat().st_size),)


_schemas: dict[str, pa.Schema] = {}


def _build_arrow_schema(spark: SparkSession, schema: Schema) -> pa.Schema:
    if str(schema) not in _schemas:
        _schemas[str(schema)] = to_arrow_schema(spark.createDataFrame([], str(schema)).schema, timezone="UTC")
    return _schemas[str(schema)]
