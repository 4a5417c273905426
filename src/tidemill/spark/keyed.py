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
from tidemill.model.stateful import WIDTHS, Keyed
from tidemill.spark.local.batches import given
from tidemill.stream.cache import Cache, Partition, run_cached
from tidemill.stream.checksums import hashed
from tidemill.stream.keyed import Columns, Function, Step
from tidemill.stream.layout import Keys, Layout, Rows
from tidemill.stream.operator import Made
from tidemill.stream.state_blocks import rebuilt, table_of

IN_WORKERS_FROM = 500_000
"""Rows of a batch from which on it is handed to workers: the driver has run about as many of a light function before
workers have begun (docs/streams.md). What more rows gain there depends on the function."""

_PART = "part binary"


@dataclass(frozen=True, slots=True)
class State:
    """Where a task's state is, and from which version to which a run leads."""

    layout: Layout
    name: str
    before: int
    after: int
    cache: str  # a directory

    def partition(self, number: int, of: int) -> Partition:
        name = f"{self.name}-{number}-{of}"
        return Partition(name, self.layout, str(self.before), str(self.after))


@dataclass(frozen=True, slots=True)
class Called:
    """The user's function, as the operator calls it."""

    call: Callable[..., Any]
    argument: str  # under which it sees the batch
    others: dict[str, Any]  # whole tables and parameters

    def __call__(self, state: Rows, batch: Columns) -> Step:
        step = self.call(state, **{self.argument: batch}, **self.others)
        if not isinstance(step, Step):
            raise BadInput(f"expected a keyed task to return a tidemill.stream.Step, it returned {type(step).__name__}")
        return step


def layout_of(code: Keyed) -> Layout:
    kept = code.kept
    return Layout(kept.key, {f.name: WIDTHS[f.type] for f in kept.schema if f.name not in kept.key})


def columns_of(table: pa.Table) -> dict[str, Any]:
    """Rows as arrays by name. Whole numbers of which some are NULL become floats, as pandas has it."""
    return {name: table[name].to_numpy() for name in table.column_names}


def in_driver(state: State, function: Function, events: pa.Table, blocks: Callable[[], Iterable[pa.Table]]) -> Made:
    """Run a batch here, on the state of all keys."""
    return _made(state, state.partition(0, 1), function, events, blocks)


def in_workers(
    spark: SparkSession, state: State, function: Function, events: pa.Table, paths: Sequence[str], partitions: int
) -> list[Made]:
    """Run a batch in as many tasks of Spark's as there are partitions. The function is sent once, the rest as rows.

    `paths` are the files of the base and its deltas, in order, for those who have to rebuild the state.
    """
    home = _homes(_keys(events, state.layout.key), partitions)
    shares = [(n, partitions, state, paths, events.filter(pa.array(home == n))) for n in range(partitions)]
    sent = pa.table({"number": pa.array(range(partitions), pa.int32()), "part": [pickle.dumps(s) for s in shares]})
    rows = given(spark, sent)
    each = rows.repartitionById(partitions, "number").select("part")  # others may put two partitions into one task
    done = each.mapInArrow(partial(_work, function), _PART).toArrow()
    return [pickle.loads(part) for part in done["part"].to_pylist()]


def _work(function: Function, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        made = [pickle.dumps(_share(function, *pickle.loads(part))) for part in batch.column(0).to_pylist()]
        yield pa.RecordBatch.from_arrays([pa.array(made, pa.binary())], names=["part"])


def _share(function: Function, number: int, of: int, state: State, paths: Sequence[str], events: pa.Table) -> Made:
    def blocks() -> Iterator[pa.Table]:
        for path in paths:
            rows = pq.read_table(path, columns=list(state.layout.names), page_checksum_verification=True)
            yield rows.filter(pa.array(_homes(_keys(rows, state.layout.key), of) == number))

    return _made(state, state.partition(number, of), function, events, blocks)


def _made(
    state: State, part: Partition, function: Function, events: pa.Table, blocks: Callable[[], Iterable[pa.Table]]
) -> Made:  # fmt: skip
    _keys(events, state.layout.key)
    outcome = run_cached(
        Cache(Path(state.cache)), part, lambda: rebuilt(state.layout, blocks()), columns_of(events), function
    )  # fmt: skip
    outputs = {name: pa.table(dict(columns)) for name, columns in outcome.outputs.items()}
    return Made(outputs, {Keyed.STATE: table_of(outcome.changed, state.layout)})


def _keys(rows: pa.Table, names: Sequence[str]) -> Keys:
    for name in names:
        if name not in rows.column_names or rows[name].null_count:
            found = "NULL in it" if name in rows.column_names else f"the columns {', '.join(rows.column_names)}"
            raise BadInput(
                f"expected every event to have its key in the column {name!r}, found {found}; filter them first"
            )
    return tuple(rows[name].to_numpy().astype(np.int64) for name in names)


def _homes(keys: Keys, partitions: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The partition of each key; other bits of the hash than those that lead to its place in a table."""
    return (hashed(keys) >> np.uint64(40)).astype(np.int64) % partitions
