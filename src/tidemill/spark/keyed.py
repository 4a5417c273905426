"""Keyed state on Spark: a batch runs in the driver, or once for each partition in Spark's Python workers.

Handing a batch to workers has a price, so only functions that take long for a row gain by it (docs/streams.md).
Either way the state is a mapped file at exactly the version that was committed, or rebuilt from base and deltas.
"""

from __future__ import annotations

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
from tidemill.model.stateful import WIDTHS, KeyedTaskSpec
from tidemill.spark.local.batches import create_frame
from tidemill.stream.cache import StateCache, StatePartition, run_cached
from tidemill.stream.checksums import hash_keys
from tidemill.stream.keyed import Columns, Function, KeyedResult
from tidemill.stream.layout import Keys, RowLayout, Rows
from tidemill.stream.operator import OperatorResult
from tidemill.stream.state_blocks import rebuild_table, to_arrow_table

IN_WORKERS_FROM = 500_000
"""Rows of a batch from which on it is handed to workers: the driver has run about as many of a light function before
workers have begun (docs/streams.md). What more rows gain there depends on the function."""

_PART = "part binary"


@dataclass(frozen=True, slots=True)
class KeyedStateLocation:
    """Where a task's state is, and from which version to which a run leads."""

    layout: RowLayout
    name: str
    before: int
    after: int
    cache: str  # a directory

    def build_partition(self, number: int, of: int) -> StatePartition:
        name = f"{self.name}-{number}-{of}"
        return StatePartition(name, self.layout, str(self.before), str(self.after))


@dataclass(frozen=True, slots=True)
class KeyedFunction:
    """The user's function, as the operator calls it."""

    call: Callable[..., Any]
    argument: str  # under which it sees the batch
    others: dict[str, Any]  # whole tables and parameters

    def __call__(self, state: Rows, batch: Columns) -> KeyedResult:
        step = self.call(state, **{self.argument: batch}, **self.others)
        if not isinstance(step, KeyedResult):
            raise BadInput(f"expected a keyed task to return a tidemill.stream.Step, it returned {type(step).__name__}")
        return step


def build_layout(code: KeyedTaskSpec) -> RowLayout:
    kept = code.kept
    return RowLayout(kept.key, {f.name: WIDTHS[f.type] for f in kept.schema if f.name not in kept.key})


def to_columns(table: pa.Table) -> dict[str, Any]:
    """Rows as arrays by name. Whole numbers of which some are NULL become floats, as pandas has it."""
    return {name: table[name].to_numpy() for name in table.column_names}


def run_in_driver(
    state: KeyedStateLocation, function: Function, events: pa.Table, blocks: Callable[[], Iterable[pa.Table]]
) -> OperatorResult:
    """Run a batch here, on the state of all keys."""
    return _run_batch(state, state.build_partition(0, 1), function, events, blocks)


def run_in_workers(
    spark: SparkSession,
    state: KeyedStateLocation,
    function: Function,
    events: pa.Table,
    paths: Sequence[str],
    partitions: int,
) -> list[OperatorResult]:
    """Run a batch in as many tasks of Spark's as there are partitions. The function is sent once, the rest as rows.

    `paths` are the files of the base and its deltas, in order, for those who have to rebuild the state.
    """
    home = _assign_partitions(_extract_keys(events, state.layout.key), partitions)
    shares = [(n, partitions, state, paths, events.filter(pa.array(home == n))) for n in range(partitions)]
    sent = pa.table({"number": pa.array(range(partitions), pa.int32()), "part": [pickle.dumps(s) for s in shares]})
    rows = create_frame(spark, sent)
    each = rows.repartitionById(partitions, "number").select("part")  # others may put two partitions into one task
    done = each.mapInArrow(partial(_run_partitions, function), _PART).toArrow()
    return [pickle.loads(part) for part in done["part"].to_pylist()]


def _run_partitions(function: Function, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        made = [pickle.dumps(_run_partition(function, *pickle.loads(part))) for part in batch.column(0).to_pylist()]
        yield pa.RecordBatch.from_arrays([pa.array(made, pa.binary())], names=["part"])


def _run_partition(
    function: Function, number: int, of: int, state: KeyedStateLocation, paths: Sequence[str], events: pa.Table
) -> OperatorResult:
    def read_blocks() -> Iterator[pa.Table]:
        for path in paths:
            rows = pq.read_table(path, columns=list(state.layout.names), page_checksum_verification=True)
            yield rows.filter(pa.array(_assign_partitions(_extract_keys(rows, state.layout.key), of) == number))

    return _run_batch(state, state.build_partition(number, of), function, events, read_blocks)


def _run_batch(
    state: KeyedStateLocation,
    part: StatePartition,
    function: Function,
    events: pa.Table,
    blocks: Callable[[], Iterable[pa.Table]],
) -> OperatorResult:  # fmt: skip
    _extract_keys(events, state.layout.key)
    outcome = run_cached(
        StateCache(Path(state.cache)), part, lambda: rebuild_table(state.layout, blocks()), to_columns(events), function
    )  # fmt: skip
    outputs = {name: pa.table(dict(columns)) for name, columns in outcome.outputs.items()}
    return OperatorResult(outputs, {KeyedTaskSpec.STATE: to_arrow_table(outcome.changed, state.layout)})


def _extract_keys(rows: pa.Table, names: Sequence[str]) -> Keys:
    for name in names:
        if name not in rows.column_names or rows[name].null_count:
            found = "NULL in it" if name in rows.column_names else f"the columns {', '.join(rows.column_names)}"
            raise BadInput(
                f"expected every event to have its key in the column {name!r}, found {found}; filter them first"
            )
    return tuple(rows[name].to_numpy().astype(np.int64) for name in names)


def _assign_partitions(keys: Keys, partitions: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The partition of each key; other bits of the hash than those that lead to its place in a table."""
    return (hash_keys(keys) >> np.uint64(40)).astype(np.int64) % partitions
