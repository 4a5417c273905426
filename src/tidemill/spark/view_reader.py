"""Reading views as DataFrames."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby, takewhile

import pyarrow.dataset as ds
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemill.algebra.program import MAX_COLLECTED_ROWS
from tidemill.errors import EngineError
from tidemill.model.block import Block
from tidemill.model.change import COUNT, DELETED, Append, Patch, Signed, Updates, Upsert
from tidemill.model.schema import Field, Schema
from tidemill.model.view import ConvertedDelta, DeltaChain, Snapshot, SnapshotDiff, View, list_blocks
from tidemill.spark import merge
from tidemill.spark.local import batches, key_lookup
from tidemill.spark.local.batches import LocalBatch
from tidemill.spark.local.block_reader import LocalBlockReader
from tidemill.spark.merge import LookupKeys
from tidemill.spark.parquet import keep_float_filters_in_spark, read_parquet
from tidemill.spark.types import adapt_frame, build_column, build_columns, to_nullable_ddl

Locate = Callable[[str], str]

SmallChangeTest = Callable[[int, int], bool]
"""Given the rows of a content and of its change: whether the change is small."""

_ORDER_FIELD = Field(merge.ORDER, "int")

MIN_CONTENT_ROWS = 100_000
MAX_BROADCAST_ROWS = 400_000


def is_small_change(content: int, change: int) -> bool:
    """Whether skipping the untouched rows is cheaper than grouping all rows by key.

    That holds if the content is large, the change at most half of it, and its keys fit into a broadcast
    (docs/benchmarks.md).
    """
    return content >= MIN_CONTENT_ROWS and change <= min(MAX_BROADCAST_ROWS, content // 2)


class ViewReader:
    """Reads views as DataFrames. It reads exactly the files that the catalog lists, without listing directories."""

    def __init__(
        self,
        spark: SparkSession,
        locate: Locate,
        is_small: SmallChangeTest = is_small_change,
        driver_rows: int = batches.MAX_RELATION_ROWS,
        relations: batches.LocalRelations | None = None,
    ) -> None:
        """`driver_rows`: the number of rows that the driver may read; `relations`: passes rows found by the driver to
        Spark.
        """
        self._spark = spark
        self._locate = locate
        self._is_small = is_small
        self._driver_rows = driver_rows
        self._relations = relations
        self.local_reader = LocalBlockReader(locate)

    def is_local(self, view: DeltaChain | Snapshot, *, is_snapshot: bool = False) -> bool:
        """Whether it is so small that the driver reads it, even twice, and computes on it, instead of Spark.

        `is_snapshot`: it is a content, in which a few keys may be looked up instead.
        """
        return batches.has_few_rows(list_blocks(view), batches.MAX_SNAPSHOT_ROWS if is_snapshot else MAX_COLLECTED_ROWS)

    def read_ordered_deltas(self, view: Snapshot, lookup: LookupKeys | None = None) -> DataFrame:
        """The rows of the deltas, which have one kind of updates, with their order; with `lookup`, those that match a
        key.
        """
        blocks = [d for d in view.deltas if d.files]
        schema = blocks[0].updates.build_delta_schema(blocks[0].schema)
        if (
            lookup is not None
            and lookup.collect is not None
            and (rows := self.local_reader.read_deltas(view)) is not None
        ):
            matching = self._find_rows(ds.dataset(rows.table), schema.add_fields(_ORDER_FIELD), lookup)
            if matching is not None:
                return matching
        return merge.filter_by_keys(self._read_deltas(blocks, view.schema).rows, lookup)

    def read_frame(self, view: View) -> DataFrame:
        match view:
            case Snapshot():
                return self.read_snapshot(view)
            case DeltaChain():
                return self._read_chain(view)
            case SnapshotDiff():
                content = self.read_snapshot(view.before), self.read_snapshot(view.after)
                return merge.diff_contents(view.updates, *content, view.after.channel)
            case ConvertedDelta():
                return self.read_signed_rows(view)

    def read_signed_rows(
        self, view: DeltaChain | SnapshotDiff | ConvertedDelta, before: Snapshot | None = None
    ) -> DataFrame:
        """A change as signed rows. If it is stored by key, the rows that it replaces are looked up in the previous
        content.
        """
        if isinstance(view, SnapshotDiff):
            return merge.diff_contents(Signed(), self.read_snapshot(view.before), self.read_snapshot(view.after))
        chain = view.chain if isinstance(view, ConvertedDelta) else view
        rows = self._read_chain(chain)
        match chain.updates:
            case Append():
                return rows.withColumn(COUNT, merge.build_unit_count())
            case Signed():
                return rows
            case Patch() as patch:
                content = view.before if isinstance(view, ConvertedDelta) else (before or _raise_missing_content(chain))
                return merge.sign_patch_rows(patch, self.read_snapshot(content), rows)
        changed = (
            view if isinstance(view, ConvertedDelta) else ConvertedDelta(chain, before or _raise_missing_content(chain))
        )
        only = self._build_keys(rows, chain.updates.key)
        old = self.read_snapshot(changed.before, only).withColumn(COUNT, -merge.build_unit_count())
        if isinstance(chain.updates, Upsert):
            new = merge.filter_live(rows, chain.schema.names)
        else:
            new = self.read_snapshot(changed.after, only)
        return merge.union_frames([new.withColumn(COUNT, merge.build_unit_count()), old])

    def read_touched_rows(
        self, view: DeltaChain | SnapshotDiff | ConvertedDelta, key: tuple[str, ...], after: Snapshot
    ) -> DataFrame:
        """A change by key: the new row of each key in it, or `_deleted`."""
        chain = view.chain if isinstance(view, ConvertedDelta) else view
        if isinstance(chain, SnapshotDiff):
            return merge.diff_contents(Upsert(key), self.read_snapshot(chain.before), self.read_snapshot(chain.after))
        rows = self._read_chain(chain)
        if isinstance(chain.updates, Upsert):
            return rows.withColumn(DELETED, F.coalesce(build_column(DELETED), F.lit(False)))
        keys = rows.select(*build_columns(key)).distinct()
        existing = self.read_snapshot(after, self._build_keys(keys, key)).withColumn(DELETED, F.lit(False))
        deleted = merge.exclude_keys(keys, existing, key).withColumn(DELETED, F.lit(True))
        return existing.unionByName(deleted, allowMissingColumns=True)

    def read_snapshot(
        self, view: Snapshot, lookup: LookupKeys | None = None, names: Sequence[str] | None = None
    ) -> DataFrame:
        """The content; with `lookup`, the rows that match one of the keys, filtered before the merge where possible.

        With `names`, only these columns are needed.
        """
        filters_early = lookup is not None and all(_can_filter_early(d.updates, lookup) for d in view.deltas)
        content = self._merge_snapshot(view, lookup if filters_early else None, names)
        return content if lookup is None or filters_early else merge.filter_by_keys(content, lookup)

    def _merge_snapshot(self, view: Snapshot, lookup: LookupKeys | None, names: Sequence[str] | None) -> DataFrame:
        base = [view.base] if view.base is not None and view.base.files else []
        deltas = [d for d in view.deltas if d.files]
        appended = list(takewhile(lambda d: isinstance(d.updates, Append), deltas))
        if len({b.schema for b in [*base, *appended]}) > 1:
            appended = []
        plain = [*base, *appended]
        stored_schema, schema = plain[0].schema if plain else view.schema, view.schema
        if lookup is not None and names is not None and len(plain) == len(base) + len(deltas):
            schema = schema.select_fields(n for n in schema.names if n in names or n in lookup.column_names)
        content = self._look_up_rows(plain, stored_schema, schema, lookup)
        merged = deltas[len(appended) :]
        is_small = lookup is None and self._is_small(sum(b.rows for b in plain), sum(d.rows for d in merged))
        for _, group in groupby(merged, key=lambda d: (d.updates, d.schema)):
            blocks = list(group)
            delta_rows = self._read_deltas(blocks, view.schema)
            matching = merge.DeltaRows(merge.filter_by_keys(delta_rows.rows, lookup), delta_rows.blocks)
            content = merge.merge_deltas(blocks[0].updates, content, matching, is_small=is_small)
        return content

    def _build_keys(self, rows: DataFrame, key: tuple[str, ...]) -> LookupKeys:
        keys = rows.select(*build_columns(key))
        return LookupKeys(tuple((k, k) for k in key), lambda: keys, keys.toArrow if self._relations else None)

    def _look_up_rows(
        self, blocks: Sequence[Block], stored: Schema, target: Schema, lookup: LookupKeys | None
    ) -> DataFrame:
        """The rows of blocks that match one of the keys; the driver looks them up if it can."""
        if lookup is not None and key_lookup.is_searchable(blocks):
            schema = stored.select_fields(n for n in stored.names if n in target)
            files = key_lookup.open_files(
                [p for b in blocks for p in self._list_paths(b)], batches.parse_ddl(to_nullable_ddl(schema))
            )
            if files is not None and (matching := self._find_rows(files, schema, lookup)) is not None:
                return adapt_frame(matching, schema, target)
        return merge.filter_by_keys(self._scan_blocks(blocks, stored, target), lookup)

    def _find_rows(self, content: ds.Dataset, schema: Schema, lookup: LookupKeys) -> DataFrame | None:
        if self._relations is None or lookup.collect is None:
            return None
        rows = key_lookup.find_rows(content, lookup.collect(), lookup.pairs)
        return (
            None
            if rows is None
            else self._relations.create_frame(LocalBatch(rows, batches.parse_ddl(to_nullable_ddl(schema))))
        )

    def _read_chain(self, view: DeltaChain) -> DataFrame:
        filled = [d for d in view.deltas if d.files]
        if not filled:
            return self._build_empty_frame(view.updates.build_delta_schema(view.schema))
        if len(filled) == 1 or (isinstance(view.updates, Append) and len({b.schema for b in filled}) == 1):
            stored_schema = view.updates.build_delta_schema(filled[0].schema)
            return self._scan_blocks(filled, stored_schema, view.updates.build_delta_schema(view.schema))
        return merge.chain_deltas(view.updates, self._read_deltas(filled, view.schema))

    def _read_deltas(self, blocks: list[Block], schema: Schema) -> merge.DeltaRows:
        """The rows of deltas with their order."""
        updates = blocks[0].updates
        target_schema = updates.build_delta_schema(schema)
        stored_schemas = {updates.build_delta_schema(b.schema) for b in blocks}
        if len(stored_schemas) > 1:
            scans = [self._scan_blocks([b], updates.build_delta_schema(b.schema), target_schema) for b in blocks]
            return merge.DeltaRows(merge.number_frames(scans), len(blocks))
        stored_schema = stored_schemas.pop()
        rows = self._read_locally(blocks, stored_schema, merge.ORDER)
        if rows is None and len(blocks) == 1:
            rows = self._scan_blocks(blocks, stored_schema, stored_schema).withColumn(merge.ORDER, F.lit(1))
        elif rows is None:
            rows = self._scan_numbered(blocks, stored_schema)
        return merge.DeltaRows(
            adapt_frame(rows, stored_schema.add_fields(_ORDER_FIELD), target_schema.add_fields(_ORDER_FIELD)),
            len(blocks),
        )

    def _scan_numbered(self, blocks: list[Block], schema: Schema) -> DataFrame:
        """One scan of all blocks, with the number of each row's block, derived from its file.

        Spark reports a file's full path with special characters escaped; the part of it that the store chose has none.
        """
        numbers = {f.path.strip("/"): number for number, b in enumerate(blocks, 1) for f in b.files}
        depth = min(path.count("/") for path in numbers) + 1
        mapping = ", ".join(f"'{'/'.join(path.split('/')[-depth:])}', {n}" for path, n in numbers.items())
        paths = [path for b in blocks for path in self._list_paths(b)]
        rows = self._spark.read.schema(to_nullable_ddl(schema)).parquet(*paths)
        file = F.substring_index(rows.metadataColumn("_metadata").getField("file_path"), "/", -depth)
        unknown = F.raise_error(F.concat(F.lit("Spark read a file that was not requested: "), file)).cast("int")
        numbered = rows.select("*", F.coalesce(F.expr(f"map({mapping})")[file], unknown).alias(merge.ORDER))
        return keep_float_filters_in_spark(numbered)

    def _scan_blocks(self, blocks: Sequence[Block], stored: Schema, target: Schema) -> DataFrame:
        """The rows of blocks of one schema, in a single scan: each scan is a stage, and empty scans cost tasks."""
        paths = [path for b in blocks for path in self._list_paths(b)]
        if not paths:
            return self._build_empty_frame(target)
        rows = self._read_locally(blocks, stored)
        if rows is None:
            rows = read_parquet(self._spark, to_nullable_ddl(stored), paths)
        return adapt_frame(rows, stored, target)

    def _read_locally(self, blocks: Sequence[Block], schema: Schema, order: str | None = None) -> DataFrame | None:
        """The rows of blocks that are small enough for the driver to read; else None."""
        if not batches.has_few_rows(blocks, self._driver_rows):
            return None
        return batches.read_frame(self._spark, [self._list_paths(b) for b in blocks], to_nullable_ddl(schema), order)

    def _list_paths(self, block: Block) -> list[str]:
        return [self._locate(f.path) for f in block.files]

    def _build_empty_frame(self, schema: Schema) -> DataFrame:
        return self._spark.createDataFrame([], to_nullable_ddl(schema))


def _can_filter_early(updates: Updates, lookup: LookupKeys) -> bool:
    """Whether rows that are equal on the columns of the keys merge only with each other."""
    if isinstance(updates, Patch):  # a patch has no key
        return False
    return not updates.key or lookup.column_names <= set(updates.key)


def _raise_missing_content(view: DeltaChain) -> Snapshot:
    raise EngineError(
        f"the change of {view.channel} is stored by key; its previous content is needed to compute signed rows"
    )
