"""Keyed state on Spark: a batch runs in the driver, or by partition in Spark's Python workers.

Sending a batch to workers has a cost, so only functions that are slow for each row benefit (docs/streams.md). In both
cases the state is a mapped file at exactly the committed version, or rebuilt from base and deltas.
"""

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from tidemill.errors import BadInput
from tidemill.model.stateful import NUMPY_TYPES, KeyedTaskSpec
from tidemill.spark.batches import create_frame
from tidemill.stream.cache import StateCache, StatePartition, run_cached
from tidemill.stream.keyed import Columns, Function, KeyedResult
from tidemill.stream.layout import Keys, RowLayout, Rows
from tidemill.stream.operator import OperatorResult
from tidemill.stream.state_blocks import rebuild_table, to_arrow_table
from tidemill.stream.table import hash_keys

MIN_ROWS_FOR_WORKERS = 500_000
"""Rows of a batch from which it is sent to workers: the driver processes about as many with a light function before
workers have started (docs/streams.md). The gain for more rows depends on the function."""

_PART = "part binary"

ReadBlocks = Callable[[], Iterable[pa.Table]]


@dataclass(frozen=True, slots=True)
class KeyedStateLocation:
    """The location of a task's state, and the versions before and after a run."""

    layout: RowLayout
    name: str
    before: int
    after: int
    cache: str  # a directory

    def build_partition(self, number: int, count: int) -> StatePartition:
        name = f"{self.name}-{number}-{count}"
        return StatePartition(name, self.layout, str(self.before), str(self.after))


@dataclass(frozen=True, slots=True)
class KeyedFunction:
    """The user's function, as the operator calls it."""

    call: Callable[..., Any]
    argument: str  # the name of the batch parameter
    arguments: dict[str, Any]  # full tables and parameters

    def __call__(self, state: Rows, batch: Columns) -> KeyedResult:
        step = self.call(state, **{self.argument: batch}, **self.arguments)
        if not isinstance(step, KeyedResult):
            raise BadInput(f"expected a keyed task to return a tidemill.stream.Step, it returned {type(step).__name__}")
        return step


def build_layout(code: KeyedTaskSpec) -> RowLayout:
    state = code.state_schema
    return RowLayout(state.key, {f.name: NUMPY_TYPES[f.type] for f in state.schema if f.name not in state.key})


def to_columns(table: pa.Table) -> dict[str, Any]:
    """Rows as arrays by name. Integers with NULLs become floats, as in pandas."""
    return {name: table[name].to_numpy() for name in table.column_names}


def run_in_workers(
    spark: SparkSession,
    state: KeyedStateLocation,
    function: Function,
    events: pa.Table,
    paths: Sequence[str],
    partitions: int,
) -> list[OperatorResult]:
    """Run a batch in one Spark task for each partition; `paths`: the base and its deltas, to rebuild the state."""
    assignment = _assign_partitions(_extract_keys(events, state.layout.key), partitions)
    shares = [(n, partitions, state, paths, events.filter(pa.array(assignment == n))) for n in range(partitions)]
    payload = pa.table({"number": pa.array(range(partitions), pa.int32()), "part": [pickle.dumps(s) for s in shares]})
    # Other ways of partitioning may put two partitions into one task.
    partitioned = create_frame(spark, payload).repartitionById(partitions, "number").select("part")
    results = partitioned.mapInArrow(partial(_run_partitions, function), _PART).toArrow()
    return [pickle.loads(part) for part in results["part"].to_pylist()]


def _run_partitions(function: Function, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        results = [pickle.dumps(_run_partition(function, *pickle.loads(part))) for part in batch.column(0).to_pylist()]
        yield pa.RecordBatch.from_arrays([pa.array(results, pa.binary())], names=["part"])


def _run_partition(
    function: Function, number: int, of: int, state: KeyedStateLocation, paths: Sequence[str], events: pa.Table
) -> OperatorResult:
    def read_blocks() -> Iterator[pa.Table]:
        for path in paths:
            rows = pq.read_table(path, columns=list(state.layout.names), page_checksum_verification=True)
            yield rows.filter(pa.array(_assign_partitions(_extract_keys(rows, state.layout.key), of) == number))

    return run_batch(state, state.build_partition(number, of), function, events, read_blocks)


def run_batch(
    state: KeyedStateLocation, part: StatePartition, function: Function, events: pa.Table, blocks: ReadBlocks
) -> OperatorResult:
    """Run a batch in this process, on the state of a partition."""
    _extract_keys(events, state.layout.key)
    cache, columns = StateCache(Path(state.cache)), to_columns(events)
    outcome = run_cached(cache, part, lambda: rebuild_table(state.layout, blocks()), columns, function)
    outputs = {name: pa.table(dict(columns)) for name, columns in outcome.outputs.items()}
    return OperatorResult(outputs, {KeyedTaskSpec.STATE: to_arrow_table(outcome.changed, state.layout)})


def _extract_keys(rows: pa.Table, names: Sequence[str]) -> Keys:
    for name in names:
        problem = ""
        if name not in rows.column_names:
            problem = f"the columns {', '.join(rows.column_names)}"
        elif not pa.types.is_integer(rows[name].type):
            problem = f"values of type {rows[name].type}"
        elif rows[name].null_count:
            problem = "NULL in it"
        if problem:
            expected = f"expected every event to have a whole number as its key in the column {name!r}"
            raise BadInput(f"{expected}, found {problem}; filter or cast it first")
    return tuple(rows[name].to_numpy().astype(np.int64) for name in names)


def _assign_partitions(keys: Keys, partitions: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The partition of each key; it uses different bits of the hash than the position in a table."""
    return (hash_keys(keys) >> np.uint64(40)).astype(np.int64) % partitions
