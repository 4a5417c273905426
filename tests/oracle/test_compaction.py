"""However blocks are folded, rebased, shared and collected: every point that somebody may read stays what it was."""

from __future__ import annotations

import os
from itertools import count
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from tests.oracle.histories import KINDS, contents, deltas
from tests.oracle.houses import House, Memory, is_append

from tidemill.model.block import BlockKind, DataFile
from tidemill.model.change import Rows
from tidemill.model.schema import Schema
from tidemill.model.view import DeltaChain, Snapshot, View, list_blocks
from tidemill.retention.compaction import CompactionLimits
from tidemill.spark.compaction import find_touched_files, write_files
from tidemill.spark.view_reader import ViewReader

SPARK_EXAMPLES = max(2, int(os.environ.get("TIDEMILL_EXAMPLES", "100")) // 50)
STEPS = ("delta", "delta", "delta", "base", "cancelled", "read", "fold", "rebase", "tidy", "collect")


def step(data: st.DataObject, house: House, what: str) -> None:
    now = house.content[house.position.seq]
    match what:
        case "delta":
            house.add(BlockKind.DELTA, data.draw(deltas(house.updates, house.schema, now)))
        case "base":
            rows = data.draw(contents(house.updates, house.schema))
            house.add(BlockKind.BASE, now + rows if is_append(house.updates) else rows)
        case "cancelled":
            house.skip()
        case "read":
            _read(data, house)
        case "fold":
            _fold(data, house)
        case "rebase":
            house.rebase()
        case "tidy":
            house.tidy()
        case "collect":
            house.collect()


def _read(data: st.DataObject, house: House) -> None:
    """A cursor moves to the head, or a new one begins at the beginning."""
    which = data.draw(st.integers(0, len(house.cursors)))
    house.cursors[which : which + 1] = [house.position.seq if which < len(house.cursors) else 0]


def _fold(data: st.DataObject, house: House) -> None:
    there = len(house.newest().deltas)
    if there > 1:
        first = data.draw(st.integers(0, there - 2))
        last = data.draw(st.integers(first + 1, there - 1))
        view = house.newest().deltas
        taken = {(b.since, b.seq) for b in house.blocks}
        if (view[first].since, view[last].seq) not in taken:
            house.fold(first, last)


@pytest.mark.parametrize("name", KINDS)
@settings(max_examples=60)
@given(data=st.data())
def test_what_can_be_read_stays_what_it_was(name: str, data: st.DataObject) -> None:
    updates, schema = KINDS[name]
    limits = CompactionLimits(
        fan=2, floor=data.draw(st.sampled_from([0, 5])), small_file=data.draw(st.sampled_from([0, 15, 99]))
    )
    house = House(updates, schema, Memory(), limits)
    for what in data.draw(st.lists(st.sampled_from(STEPS), min_size=3, max_size=14)):
        step(data, house, what)
        house.check()


class Parquet:
    """Files that Spark reads and writes."""

    def __init__(self, spark: SparkSession, directory: Path) -> None:
        self._spark = spark
        self._names = (directory / str(n) for n in count())
        self._reader = ViewReader(spark, str, lambda content, change: False)

    def write(self, rows: Rows, schema: Schema) -> tuple[DataFile, ...]:
        arrow = to_arrow_schema(self._spark.createDataFrame([], str(schema)).schema, timezone="UTC")
        return tuple(self._one(rows[i : i + 2], arrow) for i in range(0, len(rows), 2))

    def _one(self, rows: Rows, arrow: pa.Schema) -> DataFile:
        path = next(self._names).with_suffix(".parquet")
        pq.write_table(pa.Table.from_pylist(rows, schema=arrow), path)
        return DataFile(str(path), len(rows), 10 * len(rows))

    def write_view(self, view: Snapshot | DeltaChain) -> tuple[DataFile, ...]:
        directory = next(self._names)
        write_files(self._reader.read_frame(view), str(directory), 1, sum(b.rows for b in list_blocks(view)))
        written = [(p, pq.read_metadata(p).num_rows) for p in sorted(directory.rglob("*.parquet"))]
        return tuple(DataFile(str(p), rows, 10 * rows) for p, rows in written if rows)

    def touched(self, view: Snapshot) -> frozenset[str]:
        return find_touched_files(self._spark, view, str)

    def rows(self, view: View) -> Rows:
        found: Rows = self._reader.read_frame(view).toArrow().to_pylist()
        return found


@pytest.mark.parametrize("name", KINDS)
@settings(max_examples=SPARK_EXAMPLES)
@given(data=st.data())
def test_spark_compacts_as_the_reference_does(
    name: str, data: st.DataObject, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """One base whose files are partly shared, folds below it, and a cursor that stays behind."""
    updates, schema = KINDS[name]
    hands = Parquet(spark, tmp_path_factory.mktemp("a house"))
    house = House(updates, schema, hands, CompactionLimits(fan=2, floor=0, small_file=15))
    for what in ("delta", "delta", "rebase", "read", "delta", "delta", "fold", "rebase", "collect"):
        step(data, house, what)
    house.check()


def test_a_null_key_touches_the_file_that_holds_it(spark: SparkSession, tmp_path: Path) -> None:
    updates, schema = KINDS["custom"]
    hands = Parquet(spark, tmp_path)
    house = House(updates, schema, hands, CompactionLimits(fan=2, floor=0, small_file=0))
    rows = [{"k": k, "tag": "a", "score": 1} for k in (1, 2, 3, 4, None, 6)]
    house.add(BlockKind.BASE, rows)
    house.add(BlockKind.DELTA, [{"k": k, "tag": "b", "score": 2} for k in (None, 1)])
    files = house.blocks[1].files
    assert hands.touched(house.newest()) == {files[0].path, files[2].path}
    house.rebase()
    assert [f for f in house.blocks[-1].files if f in files] == [files[1]]
    house.check()
