"""Merge, chain and diff on DataFrames, with the semantics of `algebra.reference`.

Every kind is a reduction by key over rows tagged with the order of their blocks, the base first. Append needs no
reduction, and upserts replace the rows that they touch; for signed rows the key is the full row. If the change is
small, only the base rows whose keys it touches are reduced, and the rest of the base passes through without a shuffle.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructField, StructType

from tidemill.errors import EngineError
from tidemill.model.change import (
    COUNT,
    DELETED,
    PATCH,
    Append,
    Custom,
    Increment,
    Patch,
    Rows,
    Signed,
    Updates,
    Upsert,
)
from tidemill.spark import touched_keys
from tidemill.spark.types import build_column, build_columns, quote_name

ORDER = "_tidemill_order"
_NUMBER = "_tidemill_n"
_ROW = "_tidemill_row"
_REMOVED = "_tidemill_gone"


@dataclass(frozen=True, slots=True)
class DeltaRows:
    """The rows of several deltas, with the number of their delta, from 1, in the column `_tidemill_order`."""

    rows: DataFrame
    blocks: int

    @property
    def plain_rows(self) -> DataFrame:
        return self.rows.drop(ORDER)


def merge_deltas(updates: Updates, base: DataFrame, deltas: DeltaRows, *, is_small: bool) -> DataFrame:
    """The content after applying the deltas; `is_small` if most rows are untouched and should not be shuffled."""
    if isinstance(updates, Append):
        return union_frames([base, deltas.plain_rows])
    content = base.columns
    if isinstance(updates, Patch):
        return _merge_patches(updates, base, deltas)
    key = list(updates.key) or content
    if isinstance(updates, Upsert):  # an upsert replaces the old rows, so they need not be grouped
        latest = _reduce_to_latest(deltas, updates.key)
        if is_small:
            return touched_keys.merge_upserts(base, deltas.rows, latest, key)
        return union_frames(
            [exclude_keys(base, deltas.rows.select(*build_columns(key)), key), filter_live(latest, content)]
        )
    reduce_rows = _build_content_fold(updates, base, deltas)
    if not is_small:
        return reduce_rows(base)
    touched = deltas.rows.select(*build_columns(key)).distinct()
    return union_frames(
        [touched_keys.exclude_touched(base, touched, key), reduce_rows(touched_keys.select_touched(base, touched, key))]
    )


def chain_deltas(updates: Updates, deltas: DeltaRows) -> DataFrame:
    """The single delta that has the effect of all deltas."""
    if deltas.blocks == 1:
        return deltas.plain_rows
    match updates:
        case Append():
            return deltas.plain_rows
        case Signed():
            rows = deltas.plain_rows
            return _compute_net(rows, [c for c in rows.columns if c != COUNT])
        case Upsert():
            return _select_latest(deltas.rows, updates.key)
        case Increment():
            return _sum_increments(deltas.rows, updates)
        case Patch():
            return _chain_patches(updates, deltas.rows)
        case Custom():
            return _apply_per_key(updates, [("delta", deltas.rows)], deltas.plain_rows.schema, _build_chain(updates))


def diff_contents(updates: Updates, before: DataFrame, after: DataFrame, channel: str = "") -> DataFrame:
    """The delta that turns `before` into `after`, which are contents of the channel."""
    match updates:
        case Append():
            return _repeat_rows(
                _compute_net(_sign_contents(before, after), after.columns), after.columns, _ROWS_REMOVED.format(channel)
            )
        case Signed():
            return _compute_net(_sign_contents(before, after), after.columns)
        case Upsert() | Increment():
            return _diff_by_key(updates, before, after)
        case Patch():
            return _diff_by_key(Upsert(updates.key), before, after).withColumn(PATCH, F.lit(False))
        case Custom():
            parts = [("base", number_frames([before, after]))]
            schema = StructType([*after.schema.fields]) if updates.delta is None else None
            return _apply_per_key(updates, parts, schema or _build_delta_struct(updates, after), _build_diff(updates))


_ROWS_REMOVED = (
    "rows that were read before were removed from append channel {}, but a task that reads only new rows cannot "
    "process deletions; recompute its outputs from scratch: tidemill run FLOW --variant batch"
)
_NO_SUCH_ROW = "a signed delta deletes a row that is not there"


@dataclass(frozen=True, slots=True)
class LookupKeys:
    """A small set of keys, and the pairs of columns that must be equal, where NULL equals NULL."""

    pairs: tuple[tuple[str, str], ...]
    rows: Callable[[], DataFrame]
    collect: Callable[[], pa.Table] | None = None  # the same rows, if they are few enough for the driver

    @property
    def column_names(self) -> frozenset[str]:
        """The columns that must equal a key column."""
        return frozenset(c for c, _ in self.pairs)


_FIXED = {"tinyint", "smallint", "int", "bigint", "date", "timestamp", "timestamp_ntz"}
"""Types of a fixed width, whose values are mostly distinct."""


def build_unit_count() -> Column:
    return F.lit(1).cast("bigint")


def filter_by_keys(rows: DataFrame, lookup: LookupKeys | None) -> DataFrame:
    """The rows that match one of the keys."""
    if lookup is None:
        return rows
    keys = lookup.rows()
    renamed = keys.select(*(build_column(k).alias(f"_tidemill_key{i}") for i, (_, k) in enumerate(lookup.pairs)))
    conditions = [build_column(c).eqNullSafe(F.col(f"_tidemill_key{i}")) for i, (c, _) in enumerate(lookup.pairs)]
    return _filter_by_hash(rows, keys, lookup.pairs).join(renamed, reduce(Column.__and__, conditions), "left_semi")


def _filter_by_hash(rows: DataFrame, keys: DataFrame, on: tuple[tuple[str, str], ...]) -> DataFrame:
    """The rows whose key hash equals that of one of the keys: nearly all other rows are dropped by one integer lookup.

    If part of the key has a fixed width, that part is checked first: hashing a string costs as much as everything else.
    """
    types = {c: _format_type(rows, c) for c, _ in on}
    if not all(types[c] == _format_type(keys, k) and touched_keys.has_stable_hash(types[c]) for c, k in on):
        return rows
    fixed = tuple((c, k) for c, k in on if types[c] in _FIXED)
    for pairs in [fixed, on] if 0 < len(fixed) < len(on) else [on]:
        hashes = keys.select(F.xxhash64(*build_columns([k for _, k in pairs])).alias(_NUMBER))
        rows = rows.join(
            hashes, F.xxhash64(*build_columns([c for c, _ in pairs])) == build_column(_NUMBER), "left_semi"
        )
    return rows


def exclude_keys(rows: DataFrame, others: DataFrame, key: Sequence[str]) -> DataFrame:
    """The rows whose key is not among the others' keys."""
    return rows.join(others, _match_key(rows, others, key), "left_anti")


def _format_type(rows: DataFrame, name: str) -> str:
    return rows.schema[name].dataType.simpleString()


def union_frames(frames: Sequence[DataFrame]) -> DataFrame:
    return reduce(DataFrame.union, frames)


def _build_content_fold(updates: Updates, base: DataFrame, deltas: DeltaRows) -> Callable[[DataFrame], DataFrame]:
    """The function that reduces base rows and deltas to content."""
    content = base.columns
    match updates:
        case Signed():
            return lambda rows: _repeat_rows(
                _compute_net(union_frames([rows.withColumn(COUNT, build_unit_count()), deltas.plain_rows]), content),
                content,
                _NO_SUCH_ROW,
            )
        case Increment():
            exists = build_column(updates.columns[0]).isNotNull()
            return lambda rows: (
                _sum_increments(_stack_on_base(rows, deltas), updates).filter(exists).select(*build_columns(content))
            )
        case Custom():
            parts = [("delta", deltas.rows)]
            return lambda rows: _apply_per_key(
                updates, [("base", rows.withColumn(ORDER, F.lit(0))), *parts], base.schema, _build_merge(updates)
            )
        case Append() | Upsert() | Patch():
            raise EngineError(f"{updates.name} channels need no reduction")


def _match_key(left: DataFrame, right: DataFrame, key: Sequence[str]) -> Column:
    return reduce(Column.__and__, (left[f"`{k}`"].eqNullSafe(right[f"`{k}`"]) for k in key))


def _stack_on_base(base: DataFrame, deltas: DeltaRows) -> DataFrame:
    """The base rows, which are not deletions, followed by the rows of the deltas."""
    marks = {DELETED: F.lit(None).cast("boolean"), ORDER: F.lit(0)}
    return union_frames([base.withColumns(marks), deltas.rows])


def _reduce_to_latest(deltas: DeltaRows, key: Sequence[str]) -> DataFrame:
    return deltas.rows if deltas.blocks == 1 else _select_latest(deltas.rows, key)


def number_frames(frames: Sequence[DataFrame]) -> DataFrame:
    """The rows of all frames, with the number of their frame."""
    return union_frames([f.withColumn(ORDER, F.lit(i)) for i, f in enumerate(frames, 1)])


def _select_latest(rows: DataFrame, key: Sequence[str]) -> DataFrame:
    """The row of the newest block for each key."""
    names = [c for c in rows.columns if c != ORDER]
    values = [c for c in names if c not in key]
    newest = F.max_by(F.struct(*build_columns(values)), build_column(ORDER)).alias(_ROW)
    picked = rows.groupBy(*build_columns(list(key))).agg(newest)
    return picked.select(*(build_column(n) if n in key else F.col(f"{_ROW}.`{n}`").alias(n) for n in names))


def filter_live(rows: DataFrame, content: Sequence[str]) -> DataFrame:
    return rows.filter(~F.coalesce(build_column(DELETED), F.lit(False))).select(*build_columns(list(content)))


def _sum_increments(rows: DataFrame, updates: Increment) -> DataFrame:
    """For each key, whether it was reset, and the sum of its rows from the last reset on."""
    key = build_columns(list(updates.key))
    types = {f.name: f.dataType for f in rows.schema.fields}
    last_reset = F.max(F.when(build_column(DELETED), build_column(ORDER))).over(Window.partitionBy(*key))
    relevant = rows.withColumn(_NUMBER, last_reset).filter(
        F.coalesce(build_column(ORDER) >= build_column(_NUMBER), F.lit(True))
    )
    sums = [F.sum(build_column(c)).cast(types[c]).alias(c) for c in updates.columns]
    summed = relevant.groupBy(*key).agg(*sums, F.max(build_column(_NUMBER)).isNotNull().alias(DELETED))
    return summed.select(*(build_column(c) for c in rows.columns if c != ORDER))


def _is_true(name: str) -> Column:
    return F.coalesce(build_column(name), F.lit(False))


def _collapse_patches(updates: Patch, rows: DataFrame) -> DataFrame:
    """The combined patches of several deltas: the last values of each, or a removal if there was one."""
    removed = F.max(_is_true(DELETED))
    values = F.when(~removed, F.max_by(F.struct(*build_columns(updates.columns)), build_column(ORDER)))
    return (
        rows.filter(_is_true(PATCH))
        .groupBy(*build_columns(updates.by))
        .agg(values.alias(_ROW), removed.alias(_REMOVED))
    )


def _apply_patches(updates: Patch, rows: DataFrame, patches: DataFrame) -> DataFrame:
    """The rows with the patches' values, and `_tidemill_gone` true where a patch removed them."""
    renamed = patches.select(
        *(build_column(b).alias(f"_tidemill_by{i}") for i, b in enumerate(updates.by)), _ROW, _REMOVED
    )
    condition = reduce(
        Column.__and__, (build_column(b).eqNullSafe(F.col(f"_tidemill_by{i}")) for i, b in enumerate(updates.by))
    )
    joined = rows.join(F.broadcast(renamed), condition, "left")
    is_patched = build_column(_REMOVED).isNotNull()
    values = [
        F.when(is_patched, F.col(f"{_ROW}.{quote_name(c)}")).otherwise(build_column(c)).alias(c)
        if c in updates.columns
        else build_column(c)
        for c in rows.columns
    ]
    return joined.select(*values, F.coalesce(build_column(_REMOVED), F.lit(False)).alias(_REMOVED))


def _merge_patches(updates: Patch, base: DataFrame, deltas: DeltaRows) -> DataFrame:
    """The content after patches and upserts: two broadcast joins with the base, which is not shuffled."""
    rows = deltas.plain_rows if deltas.blocks == 1 else _chain_patches(updates, deltas.rows)
    return touched_keys.merge_patches(updates, base, rows)


def _patch_upserts(updates: Patch, rows: DataFrame) -> DataFrame:
    """The newest upsert of each key, with later patches applied."""
    names = [c for c in rows.columns if c != ORDER]
    latest = _select_latest(rows.filter(~_is_true(PATCH)).withColumn(_NUMBER, build_column(ORDER)), updates.key)
    patches = rows.filter(_is_true(PATCH)).select(
        *(build_column(b).alias(f"_tidemill_by{i}") for i, b in enumerate(updates.by)),
        F.struct(*build_columns(updates.columns)).alias(_ROW),
        _is_true(DELETED).alias(_REMOVED),
        build_column(ORDER),
    )
    conditions = [build_column(b).eqNullSafe(F.col(f"_tidemill_by{i}")) for i, b in enumerate(updates.by)]
    later = latest.join(
        patches, reduce(Column.__and__, [*conditions, build_column(ORDER) > build_column(_NUMBER)]), "inner"
    )
    combined = later.groupBy(*build_columns(updates.key)).agg(
        F.max_by(build_column(_ROW), build_column(ORDER)).alias(_ROW), F.max(build_column(_REMOVED)).alias(_REMOVED)
    )
    renamed = combined.select(
        *(build_column(k).alias(f"_tidemill_by{i}") for i, k in enumerate(updates.key)), _ROW, _REMOVED
    )
    condition = reduce(
        Column.__and__, (build_column(k).eqNullSafe(F.col(f"_tidemill_by{i}")) for i, k in enumerate(updates.key))
    )
    joined = latest.join(renamed, condition, "left")
    removed = F.coalesce(build_column(_REMOVED), F.lit(False)) & ~_is_true(DELETED)
    patched = F.coalesce(~build_column(_REMOVED), F.lit(False)) & ~_is_true(DELETED)
    columns = {c: F.when(~removed, build_column(c)) for c in names if c not in (*updates.key, DELETED, PATCH)}
    for name in updates.columns:
        columns[name] = F.when(patched, F.col(f"{_ROW}.{quote_name(name)}")).otherwise(columns[name])
    columns[DELETED] = _is_true(DELETED) | removed
    return joined.select(*(columns[c].alias(c) if c in columns else build_column(c) for c in names))


def _chain_patches(updates: Patch, rows: DataFrame) -> DataFrame:
    names = [c for c in rows.columns if c != ORDER]
    nulls = {f.name: F.lit(None).cast(f.dataType) for f in rows.schema.fields}
    columns = {c: F.col(f"{_ROW}.{quote_name(c)}") for c in updates.columns} | {b: build_column(b) for b in updates.by}
    columns |= {DELETED: build_column(_REMOVED), PATCH: F.lit(True)}
    patches = _collapse_patches(updates, rows).select(*(columns.get(n, nulls[n]).alias(n) for n in names))
    return union_frames([patches, _patch_upserts(updates, rows).select(*build_columns(names))])


def sign_patch_rows(updates: Patch, before: DataFrame, delta: DataFrame) -> DataFrame:
    """The signed rows of a patch delta, from the content before."""
    rows = delta.withColumn(ORDER, F.lit(0))
    upserts = rows.filter(~_is_true(PATCH))
    keys = upserts.select(*build_columns(updates.key)).distinct()
    replaced = filter_by_keys(before, LookupKeys(tuple((k, k) for k in updates.key), lambda: keys))
    patches = _collapse_patches(updates, rows)
    patched = exclude_keys(
        filter_by_keys(before, LookupKeys(tuple((b, b) for b in updates.by), lambda: patches)), keys, updates.key
    )
    after = (
        _apply_patches(updates, patched, patches).filter(~build_column(_REMOVED)).select(*build_columns(before.columns))
    )
    added = union_frames([filter_live(upserts, before.columns), after]).withColumn(COUNT, build_unit_count())
    return union_frames([added, union_frames([replaced, patched]).withColumn(COUNT, -build_unit_count())])


def _sign_contents(before: DataFrame, after: DataFrame) -> DataFrame:
    one = F.lit(1).cast("bigint")
    return union_frames([after.withColumn(COUNT, one), before.withColumn(COUNT, -one)])


def _compute_net(rows: DataFrame, content: Sequence[str]) -> DataFrame:
    """Distinct signed rows without those that cancel out."""
    summed = rows.groupBy(*build_columns(list(content))).agg(F.sum(build_column(COUNT)).alias(COUNT))
    return summed.filter(build_column(COUNT) != 0)


def _repeat_rows(rows: DataFrame, content: Sequence[str], message: str) -> DataFrame:
    """Each row repeated by its count; a negative count is an error, raised when the rows are read."""
    failure = F.raise_error(F.lit(message)).cast("boolean")
    checked = rows.filter(F.when(build_column(COUNT) < 0, failure).otherwise(F.lit(True)))
    copies = F.explode(F.array_repeat(F.lit(0), build_column(COUNT).cast("int")))
    return checked.select(*build_columns(list(content)), copies.alias(_NUMBER)).drop(_NUMBER)


def _diff_by_key(updates: Upsert | Increment, before: DataFrame, after: DataFrame) -> DataFrame:
    """A changed key is replaced, a missing one deleted. Replacing is exact for every type, even for floats."""
    names = after.columns
    row = F.struct(*build_columns(names))
    sides = union_frames(
        [
            before.select(*build_columns(list(updates.key)), row.alias(_ROW)).withColumn(ORDER, F.lit(0)),
            after.select(*build_columns(list(updates.key)), row.alias(_ROW)).withColumn(ORDER, F.lit(1)),
        ]
    )
    old, new = F.col("_tidemill_old"), F.col("_tidemill_new")
    pairs = sides.groupBy(*build_columns(list(updates.key))).agg(
        F.first(F.when(build_column(ORDER) == 0, build_column(_ROW)), ignorenulls=True).alias("_tidemill_old"),
        F.first(F.when(build_column(ORDER) == 1, build_column(_ROW)), ignorenulls=True).alias("_tidemill_new"),
    )
    deletion = old.isNotNull() if isinstance(updates, Increment) else new.isNull()
    values = [build_column(n) if n in updates.key else F.col(f"_tidemill_new.`{n}`").alias(n) for n in names]
    return pairs.filter(~old.eqNullSafe(new)).select(*values, deletion.alias(DELETED))


# User-defined merge functions: each key's rows arrive as one Arrow table of (side, order, base row, delta row).

Parts = Sequence[tuple[str, DataFrame]]
PerKey = Callable[[dict[int, Rows]], Rows]


def _build_merge(updates: Custom) -> PerKey:
    def merge_blocks(blocks: dict[int, Rows]) -> Rows:
        content = blocks.pop(0, [])
        return reduce(updates.merge, (blocks[i] for i in sorted(blocks)), content)

    return merge_blocks


def _build_chain(updates: Custom) -> PerKey:
    def chain_blocks(blocks: dict[int, Rows]) -> Rows:
        return reduce(updates.chain, (blocks[i] for i in sorted(blocks)))

    return chain_blocks


def _build_diff(updates: Custom) -> PerKey:
    def diff_blocks(blocks: dict[int, Rows]) -> Rows:
        return updates.diff(blocks.get(1, []), blocks.get(2, []))

    return diff_blocks


def _build_delta_struct(updates: Custom, frame: DataFrame) -> StructType:
    assert updates.delta is not None
    return frame.sparkSession.createDataFrame([], str(updates.delta)).schema


def _apply_per_key(updates: Custom, parts: Parts, result: StructType, function: PerKey) -> DataFrame:
    """Group the parts by key and compute the result's rows of each group with the user's function."""
    sides = {side: frame.drop(ORDER).schema for side, frame in parts}
    rows = union_frames([_box_rows(updates, frame, side, sides) for side, frame in parts])
    nullable = StructType([StructField(f.name, f.dataType, True) for f in result.fields])
    arrow = to_arrow_schema(nullable, timezone="UTC")

    def apply_fold(table: pa.Table) -> pa.Table:
        return pa.Table.from_pylist(function(_split_blocks(table)), schema=arrow)

    keys = [F.col(f"_k{i}") for i in range(len(updates.key))]
    return rows.groupBy(*keys).applyInArrow(apply_fold, nullable)


def _box_rows(updates: Custom, frame: DataFrame, side: str, sides: dict[str, StructType]) -> DataFrame:
    keys = [build_column(k).alias(f"_k{i}") for i, k in enumerate(updates.key)]
    boxes = [
        (F.struct(*build_columns(schema.names)) if name == side else F.lit(None).cast(schema)).alias(name)
        for name, schema in sorted(sides.items())
    ]
    return frame.select(*keys, build_column(ORDER), *boxes)


def _split_blocks(table: pa.Table) -> dict[int, Rows]:
    blocks: dict[int, Rows] = {}
    for record in table.to_pylist():
        row = next(r for r in _list_sides(record) if r is not None)
        blocks.setdefault(record[ORDER], []).append(row)
    return blocks


def _list_sides(record: dict[str, Any]) -> Iterator[dict[str, Any] | None]:
    yield record.get("base")
    yield record.get("delta")
