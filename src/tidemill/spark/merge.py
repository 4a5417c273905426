"""Merge, chain and diff on DataFrames, with the meaning that `algebra.reference` gives them.

Every kind is a fold per key over rows tagged with the order of their blocks, the base first. Append needs
no fold, and upserts replace what they touch; for signed rows the key is the whole row. Where the change is small,
only the base rows whose keys it touches are folded, and the rest of the base passes through without a shuffle.
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
_N = "_tidemill_n"
_SEEN = "_tidemill_row"
_GONE = "_tidemill_gone"


@dataclass(frozen=True, slots=True)
class DeltaRows:
    """The rows of so many deltas, with the number of theirs, from 1 on, in the column `_tidemill_order`."""

    rows: DataFrame
    blocks: int

    @property
    def plain_rows(self) -> DataFrame:
        return self.rows.drop(ORDER)


def merge_deltas(updates: Updates, base: DataFrame, deltas: DeltaRows, *, little: bool) -> DataFrame:
    """The content after applying the deltas; `little` if most of it is better left alone."""
    if isinstance(updates, Append):
        return union_frames([base, deltas.plain_rows])
    content = base.columns
    if isinstance(updates, Patch):
        return _merge_patches(updates, base, deltas)
    key = list(updates.key) or content
    if isinstance(updates, Upsert):  # what an upsert touches it replaces, so the old rows need not be grouped
        last = _reduce_to_latest(deltas, updates.key)
        if little:
            return touched_keys.merge_upserts(base, deltas.rows, last, key)
        return union_frames(
            [exclude_keys(base, deltas.rows.select(*build_columns(key)), key), filter_live(last, content)]
        )
    fold = _build_content_fold(updates, base, deltas)
    if not little:
        return fold(base)
    few = deltas.rows.select(*build_columns(key)).distinct()
    return union_frames(
        [touched_keys.exclude_touched(base, few, key), fold(touched_keys.select_touched(base, few, key))]
    )


def chain_deltas(updates: Updates, deltas: DeltaRows) -> DataFrame:
    """The one delta that does what the deltas do."""
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
                _compute_net(_sign_contents(before, after), after.columns), after.columns, _LOST.format(channel)
            )
        case Signed():
            return _compute_net(_sign_contents(before, after), after.columns)
        case Upsert() | Increment():
            return _diff_by_key(updates, before, after)
        case Patch():
            return _diff_by_key(Upsert(updates.key), before, after).withColumn(PATCH, F.lit(False))
        case Custom():
            parts = [("base", number_frames([before, after]))]
            wanted = StructType([*after.schema.fields]) if updates.delta is None else None
            return _apply_per_key(updates, parts, wanted or _build_delta_struct(updates, after), _build_diff(updates))


_LOST = (
    "rows that were read before are gone from append channel {}, of which a task that reads what is new cannot be "
    "told; compute what it makes from scratch: tidemill run FLOW --variant batch"
)
_NOT_THERE = "a signed delta deletes a row that is not there"


@dataclass(frozen=True, slots=True)
class LookupKeys:
    """A few keys, and which columns must agree with which of theirs, NULL with NULL."""

    on: tuple[tuple[str, str], ...]
    rows: Callable[[], DataFrame]
    here: Callable[[], pa.Table] | None = None  # the same rows, where they are few enough for the driver

    @property
    def column_names(self) -> frozenset[str]:
        """Those that must agree."""
        return frozenset(c for c, _ in self.on)


_FIXED = {"tinyint", "smallint", "int", "bigint", "date", "timestamp", "timestamp_ntz"}
"""Types of a fixed width, of which few values are the same."""


def build_unit_count() -> Column:
    return F.lit(1).cast("bigint")


def filter_by_keys(rows: DataFrame, only: LookupKeys | None) -> DataFrame:
    """The rows that agree with some of the keys."""
    if only is None:
        return rows
    keys = only.rows()
    apart = keys.select(*(build_column(k).alias(f"_tidemill_key{i}") for i, (_, k) in enumerate(only.on)))
    agree = [build_column(c).eqNullSafe(F.col(f"_tidemill_key{i}")) for i, (c, _) in enumerate(only.on)]
    return _filter_by_hash(rows, keys, only.on).join(apart, reduce(Column.__and__, agree), "left_semi")


def _filter_by_hash(rows: DataFrame, keys: DataFrame, on: tuple[tuple[str, str], ...]) -> DataFrame:
    """The rows whose keys hash like some of the few: nearly all others are gone after one look-up of a number.

    Where some of the key is fixed in width, that is asked first: hashing a text costs as much as all the rest.
    """
    mine = {c: _format_type(rows, c) for c, _ in on}
    if not all(mine[c] == _format_type(keys, k) and touched_keys.has_stable_hash(mine[c]) for c, k in on):
        return rows
    fixed = tuple((c, k) for c, k in on if mine[c] in _FIXED)
    for pairs in [fixed, on] if 0 < len(fixed) < len(on) else [on]:
        hashes = keys.select(F.xxhash64(*build_columns([k for _, k in pairs])).alias(_N))
        rows = rows.join(hashes, F.xxhash64(*build_columns([c for c, _ in pairs])) == build_column(_N), "left_semi")
    return rows


def exclude_keys(rows: DataFrame, others: DataFrame, key: Sequence[str]) -> DataFrame:
    """The rows whose key no other row has."""
    return rows.join(others, _match_key(rows, others, key), "left_anti")


def _format_type(rows: DataFrame, name: str) -> str:
    return rows.schema[name].dataType.simpleString()


def union_frames(frames: Sequence[DataFrame]) -> DataFrame:
    return reduce(DataFrame.union, frames)


def _build_content_fold(updates: Updates, base: DataFrame, deltas: DeltaRows) -> Callable[[DataFrame], DataFrame]:
    """The function that folds base rows and deltas into content."""
    content = base.columns
    match updates:
        case Signed():
            return lambda rows: _repeat_rows(
                _compute_net(union_frames([rows.withColumn(COUNT, build_unit_count()), deltas.plain_rows]), content),
                content,
                _NOT_THERE,
            )
        case Increment():
            kept = build_column(updates.columns[0]).isNotNull()
            return lambda rows: (
                _sum_increments(_stack_on_base(rows, deltas), updates).filter(kept).select(*build_columns(content))
            )
        case Custom():
            parts = [("delta", deltas.rows)]
            return lambda rows: _apply_per_key(
                updates, [("base", rows.withColumn(ORDER, F.lit(0))), *parts], base.schema, _build_merge(updates)
            )
        case Append() | Upsert() | Patch():
            raise EngineError(f"{updates.name} channels need no fold")


def _match_key(left: DataFrame, right: DataFrame, key: Sequence[str]) -> Column:
    return reduce(Column.__and__, (left[f"`{k}`"].eqNullSafe(right[f"`{k}`"]) for k in key))


def _stack_on_base(base: DataFrame, deltas: DeltaRows) -> DataFrame:
    """Base rows, which are no deletions, and those of the deltas after them."""
    marks = {DELETED: F.lit(None).cast("boolean"), ORDER: F.lit(0)}
    return union_frames([base.withColumns(marks), deltas.rows])


def _reduce_to_latest(deltas: DeltaRows, key: Sequence[str]) -> DataFrame:
    return deltas.rows if deltas.blocks == 1 else _select_latest(deltas.rows, key)


def number_frames(frames: Sequence[DataFrame]) -> DataFrame:
    """The rows of all, with the number of their frame."""
    return union_frames([f.withColumn(ORDER, F.lit(i)) for i, f in enumerate(frames, 1)])


def _select_latest(rows: DataFrame, key: Sequence[str]) -> DataFrame:
    """Of each key, the row of the newest block."""
    names = [c for c in rows.columns if c != ORDER]
    rest = [c for c in names if c not in key]
    newest = F.max_by(F.struct(*build_columns(rest)), build_column(ORDER)).alias(_SEEN)
    picked = rows.groupBy(*build_columns(list(key))).agg(newest)
    return picked.select(*(build_column(n) if n in key else F.col(f"{_SEEN}.`{n}`").alias(n) for n in names))


def filter_live(rows: DataFrame, content: Sequence[str]) -> DataFrame:
    return rows.filter(~F.coalesce(build_column(DELETED), F.lit(False))).select(*build_columns(list(content)))


def _sum_increments(rows: DataFrame, updates: Increment) -> DataFrame:
    """Of each key, whether anything was forgotten, and the sum of what came with or after the last such row."""
    key = build_columns(list(updates.key))
    types = {f.name: f.dataType for f in rows.schema.fields}
    forgotten = F.max(F.when(build_column(DELETED), build_column(ORDER))).over(Window.partitionBy(*key))
    counted = rows.withColumn(_N, forgotten).filter(F.coalesce(build_column(ORDER) >= build_column(_N), F.lit(True)))
    sums = [F.sum(build_column(c)).cast(types[c]).alias(c) for c in updates.columns]
    folded = counted.groupBy(*key).agg(*sums, F.max(build_column(_N)).isNotNull().alias(DELETED))
    return folded.select(*(build_column(c) for c in rows.columns if c != ORDER))


def _is_true(name: str) -> Column:
    return F.coalesce(build_column(name), F.lit(False))


def _collapse_patches(updates: Patch, rows: DataFrame) -> DataFrame:
    """What the patches of several deltas come to: the last values for each, or a removal if there was one."""
    gone = F.max(_is_true(DELETED))
    values = F.when(~gone, F.max_by(F.struct(*build_columns(updates.columns)), build_column(ORDER)))
    return rows.filter(_is_true(PATCH)).groupBy(*build_columns(updates.by)).agg(values.alias(_SEEN), gone.alias(_GONE))


def _apply_patches(updates: Patch, rows: DataFrame, patches: DataFrame) -> DataFrame:
    """Rows with the patches' values, and `_tidemill_gone` true where a patch removed them."""
    apart = patches.select(*(build_column(b).alias(f"_tidemill_by{i}") for i, b in enumerate(updates.by)), _SEEN, _GONE)
    agree = reduce(
        Column.__and__, (build_column(b).eqNullSafe(F.col(f"_tidemill_by{i}")) for i, b in enumerate(updates.by))
    )
    joined = rows.join(F.broadcast(apart), agree, "left")
    hit = build_column(_GONE).isNotNull()
    values = [
        F.when(hit, F.col(f"{_SEEN}.{quote_name(c)}")).otherwise(build_column(c)).alias(c)
        if c in updates.columns
        else build_column(c)
        for c in rows.columns
    ]
    return joined.select(*values, F.coalesce(build_column(_GONE), F.lit(False)).alias(_GONE))


def _merge_patches(updates: Patch, base: DataFrame, deltas: DeltaRows) -> DataFrame:
    """The content after patches and upserts: two broadcasts against the base, which is not shuffled."""
    rows = deltas.plain_rows if deltas.blocks == 1 else _chain_patches(updates, deltas.rows)
    return touched_keys.merge_patches(updates, base, rows)


def _patch_upserts(updates: Patch, rows: DataFrame) -> DataFrame:
    """Of each key the newest upsert, after the patches that came later."""
    names = [c for c in rows.columns if c != ORDER]
    latest = _select_latest(rows.filter(~_is_true(PATCH)).withColumn(_N, build_column(ORDER)), updates.key)
    patches = rows.filter(_is_true(PATCH)).select(
        *(build_column(b).alias(f"_tidemill_by{i}") for i, b in enumerate(updates.by)),
        F.struct(*build_columns(updates.columns)).alias(_SEEN),
        _is_true(DELETED).alias(_GONE),
        build_column(ORDER),
    )
    agree = [build_column(b).eqNullSafe(F.col(f"_tidemill_by{i}")) for i, b in enumerate(updates.by)]
    later = latest.join(patches, reduce(Column.__and__, [*agree, build_column(ORDER) > build_column(_N)]), "inner")
    last = later.groupBy(*build_columns(updates.key)).agg(
        F.max_by(build_column(_SEEN), build_column(ORDER)).alias(_SEEN), F.max(build_column(_GONE)).alias(_GONE)
    )
    apart = last.select(*(build_column(k).alias(f"_tidemill_by{i}") for i, k in enumerate(updates.key)), _SEEN, _GONE)
    same = reduce(
        Column.__and__, (build_column(k).eqNullSafe(F.col(f"_tidemill_by{i}")) for i, k in enumerate(updates.key))
    )
    joined = latest.join(apart, same, "left")
    removed = F.coalesce(build_column(_GONE), F.lit(False)) & ~_is_true(DELETED)
    patched = F.coalesce(~build_column(_GONE), F.lit(False)) & ~_is_true(DELETED)
    made = {c: F.when(~removed, build_column(c)) for c in names if c not in (*updates.key, DELETED, PATCH)}
    for name in updates.columns:
        made[name] = F.when(patched, F.col(f"{_SEEN}.{quote_name(name)}")).otherwise(made[name])
    made[DELETED] = _is_true(DELETED) | removed
    return joined.select(*(made[c].alias(c) if c in made else build_column(c) for c in names))


def _chain_patches(updates: Patch, rows: DataFrame) -> DataFrame:
    names = [c for c in rows.columns if c != ORDER]
    empty = {f.name: F.lit(None).cast(f.dataType) for f in rows.schema.fields}
    made = {c: F.col(f"{_SEEN}.{quote_name(c)}") for c in updates.columns} | {b: build_column(b) for b in updates.by}
    made |= {DELETED: build_column(_GONE), PATCH: F.lit(True)}
    patches = _collapse_patches(updates, rows).select(*(made.get(n, empty[n]).alias(n) for n in names))
    return union_frames([patches, _patch_upserts(updates, rows).select(*build_columns(names))])


def sign_patch_rows(updates: Patch, before: DataFrame, delta: DataFrame) -> DataFrame:
    """The signed rows of a patch delta, from the content before."""
    rows = delta.withColumn(ORDER, F.lit(0))
    upserts = rows.filter(~_is_true(PATCH))
    keys = upserts.select(*build_columns(updates.key)).distinct()
    replaced = filter_by_keys(before, LookupKeys(tuple((k, k) for k in updates.key), lambda: keys))
    patches = _collapse_patches(updates, rows)
    near = exclude_keys(
        filter_by_keys(before, LookupKeys(tuple((b, b) for b in updates.by), lambda: patches)), keys, updates.key
    )
    after = _apply_patches(updates, near, patches).filter(~build_column(_GONE)).select(*build_columns(before.columns))
    added = union_frames([filter_live(upserts, before.columns), after]).withColumn(COUNT, build_unit_count())
    return union_frames([added, union_frames([replaced, near]).withColumn(COUNT, -build_unit_count())])


def _sign_contents(before: DataFrame, after: DataFrame) -> DataFrame:
    one = F.lit(1).cast("bigint")
    return union_frames([after.withColumn(COUNT, one), before.withColumn(COUNT, -one)])


def _compute_net(rows: DataFrame, content: Sequence[str]) -> DataFrame:
    """Signed rows, each once, those that cancel out left out."""
    summed = rows.groupBy(*build_columns(list(content))).agg(F.sum(build_column(COUNT)).alias(COUNT))
    return summed.filter(build_column(COUNT) != 0)


def _repeat_rows(rows: DataFrame, content: Sequence[str], complaint: str) -> DataFrame:
    """Each row as often as its count says; a negative count is an error, raised when the rows are read."""
    refuse = F.raise_error(F.lit(complaint)).cast("boolean")
    checked = rows.filter(F.when(build_column(COUNT) < 0, refuse).otherwise(F.lit(True)))
    many = F.explode(F.array_repeat(F.lit(0), build_column(COUNT).cast("int")))
    return checked.select(*build_columns(list(content)), many.alias(_N)).drop(_N)


def _diff_by_key(updates: Upsert | Increment, before: DataFrame, after: DataFrame) -> DataFrame:
    """A changed key is replaced, a vanished one deleted. Replacing is exact for every type, even for floats."""
    names = after.columns
    row = F.struct(*build_columns(names))
    sides = union_frames(
        [
            before.select(*build_columns(list(updates.key)), row.alias(_SEEN)).withColumn(ORDER, F.lit(0)),
            after.select(*build_columns(list(updates.key)), row.alias(_SEEN)).withColumn(ORDER, F.lit(1)),
        ]
    )
    old, new = F.col("_tidemill_old"), F.col("_tidemill_new")
    both = sides.groupBy(*build_columns(list(updates.key))).agg(
        F.first(F.when(build_column(ORDER) == 0, build_column(_SEEN)), ignorenulls=True).alias("_tidemill_old"),
        F.first(F.when(build_column(ORDER) == 1, build_column(_SEEN)), ignorenulls=True).alias("_tidemill_new"),
    )
    forget = old.isNotNull() if isinstance(updates, Increment) else new.isNull()
    values = [build_column(n) if n in updates.key else F.col(f"_tidemill_new.`{n}`").alias(n) for n in names]
    return both.filter(~old.eqNullSafe(new)).select(*values, forget.alias(DELETED))


# The user's own functions: each key's rows arrive as one Arrow table of (side, order, base row, delta row).

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


def _apply_per_key(updates: Custom, parts: Parts, result: StructType, fold: PerKey) -> DataFrame:
    """Group the parts by key and let the user's function make the result's rows of each group."""
    sides = {side: frame.drop(ORDER).schema for side, frame in parts}
    rows = union_frames([_box_rows(updates, frame, side, sides) for side, frame in parts])
    wanted = StructType([StructField(f.name, f.dataType, True) for f in result.fields])
    arrow = to_arrow_schema(wanted, timezone="UTC")

    def apply_fold(table: pa.Table) -> pa.Table:
        return pa.Table.from_pylist(fold(_split_blocks(table)), schema=arrow)

    keys = [F.col(f"_k{i}") for i in range(len(updates.key))]
    return rows.groupBy(*keys).applyInArrow(apply_fold, wanted)


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
