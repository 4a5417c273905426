"""Views as DataFrames."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import groupby, takewhile

from pyspark.sql import DataFrame, SparkSession

from tidemill.model.block import Block
from tidemill.model.change import Append
from tidemill.model.schema import Schema
from tidemill.model.view import Chain, Difference, Snapshot, View
from tidemill.spark import merge
from tidemill.spark.types import adapt

Locate = Callable[[str], str]

Little = Callable[[int, int], bool]
"""Given the rows of a content and of its change: is the change little?"""

WORTH_IT = 100_000
BROADCAST = 400_000


def changes_little(content: int, change: int) -> bool:
    """Is it cheaper to leave alone what a change does not touch than to group everything by key?

    It is where the content is large, the change at most half of it, and its keys fit into a broadcast
    (docs/benchmarks.md).
    """
    return content >= WORTH_IT and change <= min(BROADCAST, content // 2)


class Reader:
    """Turns views into DataFrames. It reads exactly the files that the catalog names, and lists nothing."""

    def __init__(self, spark: SparkSession, locate: Locate, little: Little = changes_little) -> None:
        self._spark = spark
        self._locate = locate
        self._little = little

    def frame(self, view: View) -> DataFrame:
        match view:
            case Snapshot():
                return self._snapshot(view)
            case Chain():
                return self._chain(view)
            case Difference():
                return merge.diff(view.updates, self._snapshot(view.before), self._snapshot(view.after))

    def _snapshot(self, view: Snapshot) -> DataFrame:
        base = [view.base] if view.base is not None and view.base.files else []
        deltas = [d for d in view.deltas if d.files]
        appended = list(takewhile(lambda d: isinstance(d.updates, Append), deltas))
        if len({b.schema for b in [*base, *appended]}) > 1:
            appended = []
        whole = [*base, *appended]
        content = self._scan(whole, whole[0].schema if whole else view.schema, view.schema)
        rest = deltas[len(appended) :]
        little = self._little(sum(b.rows for b in whole), sum(d.rows for d in rest))
        for _, group in groupby(rest, key=lambda d: (d.updates.name, d.updates.key, d.schema)):
            blocks = list(group)
            content = merge.merge(blocks[0].updates, content, self._deltas(blocks, view.schema), little=little)
        return content

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
        return [self._scan(scan, have, want) for scan in scans]

    def _scan(self, blocks: Sequence[Block], have: Schema, want: Schema) -> DataFrame:
        """The rows of blocks of one schema; a scan more would be a stage more, and empty ones cost tasks."""
        paths = [self._locate(f.path) for b in blocks for f in b.files]
        if not paths:
            return self._empty(want)
        return adapt(self._spark.read.schema(_nullable(have)).parquet(*paths), have, want)

    def _empty(self, schema: Schema) -> DataFrame:
        return self._spark.createDataFrame([], _nullable(schema))


def _nullable(schema: Schema) -> str:
    """The DDL without NOT NULL: a frame that claims to hold no NULL would let Spark drop the checks on it."""
    return str(Schema(tuple(replace(f, nullable=True) for f in schema)))
