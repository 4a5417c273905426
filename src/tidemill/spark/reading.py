"""Views as DataFrames."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import groupby

from pyspark.sql import DataFrame, SparkSession

from tidemill.model.block import Block, Kind
from tidemill.model.change import Append
from tidemill.model.schema import Schema
from tidemill.model.view import Chain, Difference, Snapshot, View
from tidemill.spark import merge
from tidemill.spark.types import adapt

Locate = Callable[[str], str]

BROADCAST_ROWS = 400_000
"""Up to so many changed rows a merge leaves the untouched part of the base where it is (docs/benchmarks.md)."""


class Reader:
    """Turns views into DataFrames. It reads exactly the files that the catalog names, and lists nothing."""

    def __init__(self, spark: SparkSession, locate: Locate, broadcast_rows: int = BROADCAST_ROWS) -> None:
        self._spark = spark
        self._locate = locate
        self._broadcast_rows = broadcast_rows

    def frame(self, view: View) -> DataFrame:
        match view:
            case Snapshot():
                return self._snapshot(view)
            case Chain():
                return self._chain(view)
            case Difference():
                return merge.diff(view.updates, self._snapshot(view.before), self._snapshot(view.after))

    def _snapshot(self, view: Snapshot) -> DataFrame:
        content = self._blocks([view.base] if view.base else [], view.schema, view.schema)
        for _, group in groupby(view.deltas, key=lambda b: (b.updates.name, b.updates.key, b.schema)):
            content = self._merged(content, list(group), view.schema)
        return content

    def _merged(self, content: DataFrame, deltas: list[Block], schema: Schema) -> DataFrame:
        updates = deltas[0].updates
        filled = [d for d in deltas if d.files]
        if not filled:
            return content
        small = sum(d.rows for d in filled) <= self._broadcast_rows
        return merge.merge(updates, content, self._deltas(filled, schema), small=small)

    def _chain(self, view: Chain) -> DataFrame:
        filled = [d for d in view.deltas if d.files]
        if not filled:
            return self._empty(view.updates.delta_schema(view.schema))
        return merge.chain(view.updates, self._deltas(filled, view.schema))

    def _deltas(self, blocks: list[Block], schema: Schema) -> list[DataFrame]:
        """A frame for each delta; appended blocks, whose order does not matter, are scanned as one."""
        updates = blocks[0].updates
        scans = [blocks] if isinstance(updates, Append) else [[b] for b in blocks]
        have, want = updates.delta_schema(blocks[0].schema), updates.delta_schema(schema)
        return [self._blocks(scan, have, want) for scan in scans]

    def _blocks(self, blocks: Sequence[Block], have: Schema, want: Schema) -> DataFrame:
        physical = blocks[0].schema if blocks and blocks[0].kind is Kind.BASE else have
        paths = [self._locate(f.path) for b in blocks for f in b.files]
        if not paths:
            return self._empty(want)
        return adapt(self._spark.read.schema(_nullable(physical)).parquet(*paths), physical, want)

    def _empty(self, schema: Schema) -> DataFrame:
        return self._spark.createDataFrame([], _nullable(schema))


def _nullable(schema: Schema) -> str:
    """The DDL without NOT NULL: a frame that claims to hold no NULL would let Spark drop the checks on it."""
    return str(Schema(tuple(replace(f, nullable=True) for f in schema)))
