"""Compaction, file sharing and garbage collection in any order never change what a reader sees at any position."""

from __future__ import annotations

import os
from itertools import count
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from _pytest.mark import ParameterSet
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from tests.marks import long
from tests.oracle.channel_model import ChannelModel, MemoryFiles, is_append
from tests.oracle.histories import KINDS, contents, deltas

from tidemill.local.batch import Batch
from tidemill.local.values import Unsupported
from tidemill.model.block import BlockKind, DataFile
from tidemill.model.change import Rows
from tidemill.model.schema import Schema
from tidemill.model.view import DeltaChain, Snapshot, View, list_blocks
from tidemill.ports.engine import EngineLimits
from tidemill.retention.compaction import CompactionLimits
from tidemill.spark.block_reader import BlockReader
from tidemill.spark.compaction import find_touched_files, write_files, write_rows
from tidemill.spark.local_work import LocalWork

EXAMPLES = int(os.environ.get("TIDEMILL_EXAMPLES", "30"))
SPARK_EXAMPLES = max(1, EXAMPLES // 50)
STEPS = ("delta", "delta", "delta", "base", "cancelled", "read", "minor", "major", "maintain", "collect")


def step(data: st.DataObject, model: ChannelModel, what: str) -> None:
    now = model.content[model.position.seq]
    match what:
        case "delta":
            model.add(BlockKind.DELTA, data.draw(deltas(model.updates, model.schema, now)))
        case "base":
            rows = data.draw(contents(model.updates, model.schema))
            model.add(BlockKind.BASE, now + rows if is_append(model.updates) else rows)
        case "cancelled":
            model.skip()
        case "read":
            _read(data, model)
        case "minor":
            _compact_minor(data, model)
        case "major":
            model.compact_major()
        case "maintain":
            model.run_due_compactions()
        case "collect":
            model.collect()


def _read(data: st.DataObject, model: ChannelModel) -> None:
    """Advance a cursor to the head, or add one at the start."""
    which = data.draw(st.integers(0, len(model.cursors)))
    model.cursors[which : which + 1] = [model.position.seq if which < len(model.cursors) else 0]


def _compact_minor(data: st.DataObject, model: ChannelModel) -> None:
    delta_count = len(model.newest().deltas)
    if delta_count > 1:
        first = data.draw(st.integers(0, delta_count - 2))
        last = data.draw(st.integers(first + 1, delta_count - 1))
        view = model.newest().deltas
        existing = {(b.since, b.seq) for b in model.blocks}
        if (view[first].since, view[last].seq) not in existing:
            model.compact_minor(first, last)


@pytest.mark.parametrize("name", KINDS)
@settings(max_examples=EXAMPLES)
@given(data=st.data())
def test_readable_content_never_changes(name: str, data: st.DataObject) -> None:
    updates, schema = KINDS[name]
    limits = CompactionLimits(
        fan=2, floor=data.draw(st.sampled_from([0, 5])), small_file=data.draw(st.sampled_from([0, 15, 99]))
    )
    model = ChannelModel(updates, schema, MemoryFiles(), limits)
    for what in data.draw(st.lists(st.sampled_from(STEPS), min_size=3, max_size=14)):
        step(data, model, what)
        model.check()


def _mark_case(name: str, place: str) -> ParameterSet:
    """`make test-long` also lets Spark compact the kinds that the driver compacts."""
    mark = long if place == "spark" and name in ("append", "signed", "increment") else pytest.param
    return mark(name, place, id=f"{name}-{place}")


class ParquetFiles:
    """Parquet files that Spark reads, and that Spark or, as far as it can, the driver writes."""

    def __init__(self, spark: SparkSession, directory: Path, *, is_local: bool) -> None:
        self._spark = spark
        self._is_local = is_local
        self.local_writes = self.spark_writes = 0
        self._work = LocalWork(str, EngineLimits())
        self._names = (directory / str(n) for n in count())
        self._reader = BlockReader(spark, self._work)

    def write(self, rows: Rows, schema: Schema) -> tuple[DataFile, ...]:
        arrow = to_arrow_schema(self._spark.createDataFrame([], str(schema)).schema, timezone="UTC")
        return tuple(self._write_file(rows[i : i + 2], arrow) for i in range(0, len(rows), 2))

    def _write_file(self, rows: Rows, arrow: pa.Schema) -> DataFile:
        path = next(self._names).with_suffix(".parquet")
        pq.write_table(pa.Table.from_pylist(rows, schema=arrow), path)
        return DataFile(str(path), len(rows), 10 * len(rows))

    def write_view(self, view: Snapshot | DeltaChain) -> tuple[DataFile, ...]:
        directory = next(self._names)
        rows = self._work.try_compute(view) if self._is_local else Unsupported()
        if isinstance(rows, Batch) and isinstance(write_rows(rows, view, str(directory), 1), int):
            self.local_writes += 1
        else:
            self.spark_writes += 1
            write_files(self._reader.read_view(view), str(directory), 1, sum(b.rows for b in list_blocks(view)))
        written = [(p, pq.read_metadata(p).num_rows) for p in sorted(directory.rglob("*.parquet"))]
        return tuple(DataFile(str(p), rows, 10 * rows) for p, rows in written if rows)

    def find_touched(self, view: Snapshot) -> frozenset[str]:
        return find_touched_files(self._spark, view, str)

    def rows(self, view: View) -> Rows:
        result: Rows = self._reader.read_view(view).toArrow().to_pylist()
        return result


@pytest.mark.parametrize(
    ("name", "place"), [_mark_case(name, place) for name in KINDS for place in ("spark", "driver")]
)
@settings(max_examples=SPARK_EXAMPLES)
@given(data=st.data())
def test_compaction_of_files_equals_the_reference(
    name: str, place: str, data: st.DataObject, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A base that shares files, minor compactions before it, and a cursor that lags."""
    updates, schema = KINDS[name]
    files = ParquetFiles(spark, tmp_path_factory.mktemp("channel"), is_local=place == "driver")
    model = ChannelModel(updates, schema, files, CompactionLimits(fan=2, floor=0, small_file=15))
    for what in ("delta", "delta", "major", "read", "delta", "delta", "minor", "major", "collect"):
        step(data, model, what)
    model.check()
    assert not (files.local_writes if place == "spark" else files.spark_writes and name in ("append", "upsert"))


@pytest.mark.long
def test_a_null_key_touches_the_file_that_contains_it(spark: SparkSession, tmp_path: Path) -> None:
    updates, schema = KINDS["custom"]
    files = ParquetFiles(spark, tmp_path, is_local=False)
    model = ChannelModel(updates, schema, files, CompactionLimits(fan=2, floor=0, small_file=0))
    rows = [{"k": k, "tag": "a", "score": 1} for k in (1, 2, 3, 4, None, 6)]
    model.add(BlockKind.BASE, rows)
    model.add(BlockKind.DELTA, [{"k": k, "tag": "b", "score": 2} for k in (None, 1)])
    base_files = model.blocks[1].files
    assert files.find_touched(model.newest()) == {base_files[0].path, base_files[2].path}
    model.compact_major()
    assert [f for f in model.blocks[-1].files if f in base_files] == [base_files[1]]
    model.check()
