"""Views as DataFrames."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby, takewhile

import pyarrow.dataset as ds
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemill.algebra.program import COLLECTED
from tidemill.errors import EngineError
from tidemill.model.block import Block
from tidemill.model.change import COUNT, DELETED, Append, Patch, Signed, Updates, Upsert
from tidemill.model.schema import Field, Schema
from tidemill.model.view import Chain, Converted, Difference, Snapshot, View, blocks_of
from tidemill.spark import merge
from tidemill.spark.local import batches, key_lookup
from tidemill.spark.local.batches import Held
from tidemill.spark.local.block_reader import Holder
from tidemill.spark.merge import Keys
from tidemill.spark.parquet import keep_float_filters_in_spark, read_parquet
from tidemill.spark.types import adapt, column, columns, loose

Locate = Callable[[str], str]

Little = Callable[[int, int], bool]
"""Given the rows of a content and of its change: is the change little?"""

_NUMBER = Field(merge.ORDER, "int")

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

    def __init__(
        self,
        spark: SparkSession,
        locate: Locate,
        little: Little = changes_little,
        driver: int = batches.ROWS,
        hand: batches.Hand | None = None,
    ) -> None:
        """`driver`: how many rows may be read by the driver itself; `hand`: gives Spark what it has looked up."""
        self._spark = spark
        self._locate = locate
        self._little = little
        self._driver = driver
        self._hand = hand
        self.holder = Holder(locate)

    def at_hand(self, view: Chain | Snapshot, *, whole: bool = False) -> bool:
        """Is it so small that it is read here, even twice, rather than by Spark? Then so is what is computed of it.

        `whole`: it is a content, of which a few keys may be looked up instead.
        """
        return batches.few(blocks_of(view), batches.WHOLE if whole else COLLECTED)

    def ordered(self, view: Snapshot, only: Keys | None = None) -> DataFrame:
        """The rows of the deltas, which are of one kind, with their order; with `only`, those that agree with a key."""
        blocks = [d for d in view.deltas if d.files]
        schema = blocks[0].updates.delta_schema(blocks[0].schema)
        if only is not None and only.here is not None and (rows := self.holder.since(view)) is not None:
            near = self._found(ds.dataset(rows.table), schema.plus(_NUMBER), only)
            if near is not None:
                return near
        return merge.among(self._deltas(blocks, view.schema).rows, only)

    def frame(self, view: View) -> DataFrame:
        match view:
            case Snapshot():
                return self.snapshot(view)
            case Chain():
                return self._chain(view)
            case Difference():
                content = self.snapshot(view.before), self.snapshot(view.after)
                return merge.diff(view.updates, *content, view.after.channel)
            case Converted():
                return self.signed(view)

    def signed(self, view: Chain | Difference | Converted, before: Snapshot | None = None) -> DataFrame:
        """A change as signed rows. Where it is kept by key, the rows it replaces are looked up in what was before."""
        if isinstance(view, Difference):
            return merge.diff(Signed(), self.snapshot(view.before), self.snapshot(view.after))
        kept = view.chain if isinstance(view, Converted) else view
        rows = self._chain(kept)
        match kept.updates:
            case Append():
                return rows.withColumn(COUNT, merge.one())
            case Signed():
                return rows
            case Patch() as patch:
                content = view.before if isinstance(view, Converted) else (before or _unknown(kept))
                return merge.patch_rows(patch, self.snapshot(content), rows)
        changed = view if isinstance(view, Converted) else Converted(kept, before or _unknown(kept))
        only = self._keys(rows, kept.updates.key)
        old = self.snapshot(changed.before, only).withColumn(COUNT, -merge.one())
        if isinstance(kept.updates, Upsert):
            new = merge.live(rows, kept.schema.names)
        else:
            new = self.snapshot(changed.after, only)
        return merge.union([new.withColumn(COUNT, merge.one()), old])

    def touched(self, view: Chain | Difference | Converted, key: tuple[str, ...], after: Snapshot) -> DataFrame:
        """A change by key: the new row of each key in it, or `_deleted`."""
        kept = view.chain if isinstance(view, Converted) else view
        if isinstance(kept, Difference):
            return merge.diff(Upsert(key), self.snapshot(kept.before), self.snapshot(kept.after))
        rows = self._chain(kept)
        if isinstance(kept.updates, Upsert):
            return rows.withColumn(DELETED, F.coalesce(column(DELETED), F.lit(False)))
        keys = rows.select(*columns(key)).distinct()
        found = self.snapshot(after, self._keys(keys, key)).withColumn(DELETED, F.lit(False))
        gone = merge.without(keys, found, key).withColumn(DELETED, F.lit(True))
        return found.unionByName(gone, allowMissingColumns=True)

    def snapshot(self, view: Snapshot, only: Keys | None = None, names: Sequence[str] | None = None) -> DataFrame:
        """The content; with `only`, the rows that agree with some of a few keys, found before anything is merged.

        With `names`, no more than these columns are needed.
        """
        early = only is not None and all(_decides(d.updates, only) for d in view.deltas)
        content = self._snapshot(view, only if early else None, names)
        return content if only is None or early else merge.among(content, only)

    def _snapshot(self, view: Snapshot, only: Keys | None, names: Sequence[str] | None) -> DataFrame:
        base = [view.base] if view.base is not None and view.base.files else []
        deltas = [d for d in view.deltas if d.files]
        appended = list(takewhile(lambda d: isinstance(d.updates, Append), deltas))
        if len({b.schema for b in [*base, *appended]}) > 1:
            appended = []
        whole = [*base, *appended]
        have, want = whole[0].schema if whole else view.schema, view.schema
        if only is not None and names is not None and len(whole) == len(base) + len(deltas):
            want = want.select(n for n in want.names if n in names or n in only.columns)
        content = self._looked_up(whole, have, want, only)
        rest = deltas[len(appended) :]
        little = only is None and self._little(sum(b.rows for b in whole), sum(d.rows for d in rest))
        for _, group in groupby(rest, key=lambda d: (d.updates, d.schema)):
            blocks = list(group)
            found = self._deltas(blocks, view.schema)
            near = merge.Deltas(merge.among(found.rows, only), found.blocks)
            content = merge.merge(blocks[0].updates, content, near, little=little)
        return content

    def _keys(self, rows: DataFrame, key: tuple[str, ...]) -> Keys:
        keys = rows.select(*columns(key))
        return Keys(tuple((k, k) for k in key), lambda: keys, keys.toArrow if self._hand else None)

    def _looked_up(self, blocks: Sequence[Block], have: Schema, want: Schema, only: Keys | None) -> DataFrame:
        """The rows of blocks that agree with some of the keys; the driver looks them up if it can."""
        if only is not None and key_lookup.searchable(blocks):
            kept = have.select(n for n in have.names if n in want)
            files = key_lookup.files([p for b in blocks for p in self._paths(b)], batches.schema_of(loose(kept)))
            if files is not None and (near := self._found(files, kept, only)) is not None:
                return adapt(near, kept, want)
        return merge.among(self._scan(blocks, have, want), only)

    def _found(self, content: ds.Dataset, schema: Schema, only: Keys) -> DataFrame | None:
        if self._hand is None or only.here is None:
            return None
        rows = key_lookup.found(content, only.here(), only.on)
        return None if rows is None else self._hand.frame(Held(rows, batches.schema_of(loose(schema))))

    def _chain(self, view: Chain) -> DataFrame:
        filled = [d for d in view.deltas if d.files]
        if not filled:
            return self._empty(view.updates.delta_schema(view.schema))
        if len(filled) == 1 or (isinstance(view.updates, Append) and len({b.schema for b in filled}) == 1):
            have = view.updates.delta_schema(filled[0].schema)
            return self._scan(filled, have, view.updates.delta_schema(view.schema))
        return merge.chain(view.updates, self._deltas(filled, view.schema))

    def _deltas(self, blocks: list[Block], schema: Schema) -> merge.Deltas:
        """The rows of deltas in their order."""
        updates = blocks[0].updates
        want = updates.delta_schema(schema)
        have = {updates.delta_schema(b.schema) for b in blocks}
        if len(have) > 1:
            scans = [self._scan([b], updates.delta_schema(b.schema), want) for b in blocks]
            return merge.Deltas(merge.in_order(scans), len(blocks))
        found = have.pop()
        rows = self._here(blocks, found, merge.ORDER)
        if rows is None and len(blocks) == 1:
            rows = self._scan(blocks, found, found).withColumn(merge.ORDER, F.lit(1))
        elif rows is None:
            rows = self._numbered(blocks, found)
        return merge.Deltas(adapt(rows, found.plus(_NUMBER), want.plus(_NUMBER)), len(blocks))

    def _numbered(self, blocks: list[Block], schema: Schema) -> DataFrame:
        """One scan of all blocks, each row with the number of its block, which follows from its file.

        Spark shows a file's whole path, with what is special in it written in another way; nothing is in the part of it
        that the store chose.
        """
        numbers = {f.path.strip("/"): number for number, b in enumerate(blocks, 1) for f in b.files}
        parts = min(path.count("/") for path in numbers) + 1
        known = ", ".join(f"'{'/'.join(path.split('/')[-parts:])}', {n}" for path, n in numbers.items())
        paths = [path for b in blocks for path in self._paths(b)]
        rows = self._spark.read.schema(loose(schema)).parquet(*paths)
        file = F.substring_index(rows.metadataColumn("_metadata").getField("file_path"), "/", -parts)
        unknown = F.raise_error(F.concat(F.lit("Spark read a file that was not asked for: "), file)).cast("int")
        numbered = rows.select("*", F.coalesce(F.expr(f"map({known})")[file], unknown).alias(merge.ORDER))
        return keep_float_filters_in_spark(numbered)

    def _scan(self, blocks: Sequence[Block], have: Schema, want: Schema) -> DataFrame:
        """The rows of blocks of one schema; a scan more would be a stage more, and empty ones cost tasks."""
        paths = [path for b in blocks for path in self._paths(b)]
        if not paths:
            return self._empty(want)
        rows = self._here(blocks, have)
        if rows is None:
            rows = read_parquet(self._spark, loose(have), paths)
        return adapt(rows, have, want)

    def _here(self, blocks: Sequence[Block], schema: Schema, order: str | None = None) -> DataFrame | None:
        """The rows of blocks that are small enough to be read by the driver."""
        if not batches.few(blocks, self._driver):
            return None
        return batches.read(self._spark, [self._paths(b) for b in blocks], loose(schema), order)

    def _paths(self, block: Block) -> list[str]:
        return [self._locate(f.path) for f in block.files]

    def _empty(self, schema: Schema) -> DataFrame:
        return self._spark.createDataFrame([], loose(schema))


def _decides(updates: Updates, only: Keys) -> bool:
    """Do rows that agree on the columns of the keys merge with each other alone?"""
    if isinstance(updates, Patch):  # a patch has no key of its own
        return False
    return not updates.key or only.columns <= set(updates.key)


def _unknown(view: Chain) -> Snapshot:
    raise EngineError(f"the change of {view.channel} is kept by key; its content before is needed to make rows of it")
