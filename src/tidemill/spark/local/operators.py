"""Operators on rows that the driver holds, with the meaning that `algebra.evaluate` gives them.

What a small change touches is small: joining and grouping a few thousand rows takes Arrow a few milliseconds, and
Spark a tenth of a second, most of it for planning. So what is beyond doubt is done here (`spark.terms` has the
expressions), and Spark is given what is left.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import count

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import DecimalType, IntegerType, LongType, StructField, StructType
from sqlglot import exp

from tidemill.algebra.dialect import parse_expression, parse_query
from tidemill.algebra.expression import Expression, build_literal, expression_from_tree
from tidemill.algebra.operators import (
    AggregateCall,
    Aggregation,
    Explode,
    Filter,
    Join,
    JoinKind,
    Operator,
    Projection,
    Scan,
    ScanMode,
    SingleRow,
    StepReference,
    TopN,
    Union,
    list_children,
)
from tidemill.algebra.restrict import Pairs, restrict_rows
from tidemill.spark.local import decimals
from tidemill.spark.local.batches import FEW, LocalBatch
from tidemill.spark.local.expressions import (
    WHOLE,
    ColumnValue,
    ForSpark,
    cast_value,
    evaluate_condition,
    evaluate_expression,
    from_comparable,
    to_comparable,
    to_sortable,
    widen_to_common,
)

_JOINS = {
    JoinKind.INNER: "inner",
    JoinKind.LEFT: "left outer",
    JoinKind.RIGHT: "right outer",
    JoinKind.FULL: "full outer",
    JoinKind.SEMI: "left semi",
    JoinKind.ANTI: "left anti",
}
_ASKS_LEFT = (JoinKind.INNER, JoinKind.LEFT, JoinKind.SEMI, JoinKind.ANTI)
"""Joins that have no row without one on the left; and on the right."""
_ASKS_RIGHT = (JoinKind.INNER, JoinKind.RIGHT, JoinKind.SEMI)

_LEFT, _RIGHT = "left", "right"
"""Columns of numbers of rows."""

_Numbers = npt.NDArray[np.int64]

_LARGE = 1 << 62
"""Sums that may come near it are left to Spark."""

_OFTEN = 10_000
"""Of one row there is no more at hand."""

_PAIRS = 1 << 20
"""So many pairs of rows are tried one by one; more are for Spark, which need not hold them all at once."""

_MANY = 1 << 24
"""Pairs of rows that agree on keys: so many are still held."""


class LocalExecutor:
    """Computes operators, each once; None for what is Spark's to compute."""

    def __init__(self, leaf: Callable[[Operator], LocalBatch | None]) -> None:
        """`leaf`: the rows of an operator that are at hand without computing anything."""
        self._leaf = leaf
        self._known: dict[Operator, LocalBatch | None] = {}
        self._numbers = count()

    def __call__(self, op: Operator) -> LocalBatch | None:
        if op not in self._known:
            try:
                self._known[op] = self._compute_operator(op)
            except (ForSpark, pa.ArrowException):
                self._known[op] = None
        return self._known[op]

    def _compute_operator(self, op: Operator) -> LocalBatch | None:
        if not op.columns or len({*op.columns}) < len(op.columns):
            return None
        held = self._leaf(op)
        if held is not None:
            return held
        match op:
            case Projection():
                rows = self._compute_rows(op.child)
                return _build_batch([(i.name, evaluate_expression(i.value, rows)) for i in op.items])
            case Filter():
                rows = self._compute_rows(op.child)
                return LocalBatch(rows.table.filter(evaluate_condition(op.condition, rows)), rows.struct)
            case Union():
                return _union_batches([self._compute_rows(child) for child in op.children])
            case Explode(outer=False):
                return _repeat_rows(self._compute_rows(op.child), op)
            case Aggregation():
                return _group_rows(self._compute_rows(op.child), op)
            case Join():
                return self._compute_join(op)
            case TopN():
                return _take_top(self._compute_rows(op.child), op)
            case SingleRow():
                return _build_batch([("_one", ColumnValue(pa.array([0], pa.int32()), IntegerType()))])
            case _:
                return None

    def find_result(self, op: Operator) -> LocalBatch | None:
        """What was computed already."""
        return self._known.get(op)

    def _compute_join(self, op: Join) -> LocalBatch:
        """Of a side that may be large only the rows that can agree with the other, if those are few."""
        if op.keys and op.kind in _ASKS_LEFT and is_small(op.left) and not _is_available(op.right):
            left = self._compute_rows(op.left)
            return _join_batches(
                left, self._find_candidates(op.right, left, tuple((theirs, mine) for mine, theirs in op.keys)), op
            )
        if op.keys and op.kind in _ASKS_RIGHT and is_small(op.right) and not _is_available(op.left):
            right = self._compute_rows(op.right)
            return _join_batches(self._find_candidates(op.left, right, op.keys), right, op)
        return _join_batches(self._compute_rows(op.left), self._compute_rows(op.right), op)

    def _find_candidates(self, op: Operator, rows: LocalBatch, on: Pairs) -> LocalBatch:
        if rows.table.num_rows > FEW:
            return self._compute_rows(op)
        keys = rows.select_columns(list(dict.fromkeys(key for _, key in on)))
        name = StepReference(
            f"near {next(self._numbers)}", tuple(keys.struct.names)
        )  # other steps are computed meanwhile
        self._known[name] = keys
        near = restrict_rows(op, name, on)
        return self._compute_rows(op if isinstance(near, Join) and near.left is op else near)  # nothing is spared

    def _compute_rows(self, op: Operator) -> LocalBatch:
        rows = self(op)
        if rows is None:
            raise ForSpark(type(op).__name__)
        return rows


def is_small(op: Operator) -> bool:
    """Is it made of few rows, those of a small change or of a step?"""
    match op:
        case Scan():
            return op.at in (ScanMode.CHANGE, ScanMode.TOUCHED)
        case Join(kind=JoinKind.INNER | JoinKind.SEMI) if op.keys:
            return is_small(op.left) or is_small(op.right)
        case Join(kind=JoinKind.LEFT | JoinKind.SEMI | JoinKind.ANTI):
            return is_small(op.left)
        case _:
            return all(map(is_small, list_children(op)))


def _is_available(op: Operator) -> bool:
    """Is it had without computing anything, or small itself?"""
    return isinstance(op, Scan | StepReference) or is_small(op)


def _build_batch(columns: Sequence[tuple[str, ColumnValue]]) -> LocalBatch:
    struct = StructType([StructField(name, v.type) for name, v in columns])
    return LocalBatch(pa.table({name: v.data for name, v in columns}), struct)


def _union_batches(parts: Sequence[LocalBatch]) -> LocalBatch:
    names = parts[0].struct.names
    columns = {n: widen_to_common([ColumnValue(p.table.column(n), p.struct[n].dataType) for p in parts]) for n in names}
    tables = [pa.table({n: columns[n][i].data for n in names}) for i in range(len(parts))]
    return LocalBatch(pa.concat_tables(tables), StructType([StructField(n, columns[n][0].type) for n in names]))


def _repeat_rows(rows: LocalBatch, op: Explode) -> LocalBatch:
    """Each row several times: nothing else is exploded by derivation itself."""
    generator = parse_expression(op.generator.text)
    match op.outputs, generator.this:
        case [name], exp.Anonymous(name="ARRAY_REPEAT", expressions=[exp.Literal(name="0"), exp.Cast() as times]):
            often = evaluate_expression(expression_from_tree(times.this.copy()), rows)
        case _:
            raise ForSpark(op.generator.text)
    if often.type not in WHOLE:
        raise ForSpark(f"{often.type.simpleString()} times")
    counts = pc.fill_null(often.data, 0).to_numpy()
    if counts.max(initial=0) > _OFTEN:
        raise ForSpark("a row very many times")
    table = rows.table.take(np.repeat(np.arange(len(counts)), np.maximum(counts, 0)))
    zeros = pa.repeat(pa.scalar(0, pa.int32()), len(table))
    return LocalBatch(table, rows.struct).add_column(StructField(name, IntegerType()), zeros)


# -- groups ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Aggregation:
    """How Arrow computes a fold: of these numbers their sum, least or greatest; what that means comes after."""

    numbers: pa.ChunkedArray | pa.Array
    how: str
    finished: Callable[[pa.ChunkedArray], ColumnValue]


def _group_rows(rows: LocalBatch, op: Aggregation) -> LocalBatch:
    ways = [_build_aggregation(fold, rows) for fold in op.folds]
    keys, numbers = [f"k{i}" for i in range(len(op.keys))], [f"n{i}" for i in range(len(ways))]
    columns = [*(_extract_key(rows, k) for k in op.keys), *(w.numbers for w in ways)]
    grouped = pa.table(columns, names=[*keys, *numbers]).group_by(keys, use_threads=False)
    found = grouped.aggregate([(n, w.how) for n, w in zip(numbers, ways, strict=True)])
    made = [(k, from_comparable(found.column(n), rows.struct[k].dataType)) for k, n in zip(op.keys, keys, strict=True)]
    folds = zip(op.folds, numbers, ways, strict=True)
    return _build_batch([*made, *((f.name, w.finished(found.column(f"{n}_{w.how}"))) for f, n, w in folds)])


def _build_aggregation(fold: AggregateCall, rows: LocalBatch) -> _Aggregation:
    if fold.text:
        raise ForSpark(fold.function)
    way = _build_plain_aggregation(fold, rows)
    if not fold.cast:
        return way
    wanted = exp.DataType.build(fold.cast, dialect="spark")
    return replace(way, finished=lambda found: cast_value(way.finished(found), wanted))


def _build_plain_aggregation(fold: AggregateCall, rows: LocalBatch) -> _Aggregation:
    given = [evaluate_expression(a, rows) for a in fold.arguments]
    if fold.function == "count":
        counted = reduce(pc.and_, (g.data.is_valid() for g in given), pa.repeat(True, rows.table.num_rows))
        return _Aggregation(counted.cast(pa.int64()), "sum", lambda numbers: ColumnValue(numbers, LongType()))
    if not given:
        raise ForSpark(fold.function)
    first, *others = given
    match fold.function, others:
        case "sum", [] if first.type in WHOLE:
            if _can_overflow(first.data):
                raise ForSpark("a sum that may be too large")
            return _Aggregation(first.data, "sum", lambda numbers: ColumnValue(numbers, LongType()))
        case "sum", [] if isinstance(first.type, DecimalType):
            kind = decimals.infer_total_type(first.type)
            return _Aggregation(
                decimals.widen_column(first.data),
                "sum",
                lambda numbers: ColumnValue(decimals.cast_decimal(numbers, kind), kind),
            )
        case "min" | "max", []:
            codes = to_sortable(first)
            if codes.type == first.data.type:
                return _Aggregation(codes, fold.function, lambda values: ColumnValue(values, first.type))
            sorted_rows = pc.sort_indices(codes)
            ranks = pc.if_else(codes.is_valid(), pc.sort_indices(sorted_rows), None)
            return _Aggregation(ranks, fold.function, lambda ranks: first.take_rows(sorted_rows.take(ranks)))
        case "any_value", [_] if fold.arguments[1] == build_literal("TRUE"):  # of those that are not NULL
            at = pc.if_else(first.data.is_valid(), _build_row_numbers(len(first.data)), None)
            return _Aggregation(at, "min", first.take_rows)
        case "max_by", [order] if order.type in WHOLE and not order.data.null_count:
            sorted_rows = pc.sort_indices(order.data)
            return _Aggregation(
                pc.sort_indices(sorted_rows), "max", lambda ranks: first.take_rows(sorted_rows.take(ranks))
            )
    raise ForSpark(fold.function)


def _can_overflow(numbers: pa.ChunkedArray | pa.Array) -> bool:
    ends = pc.min_max(numbers).as_py().values()
    return any(abs(end) * len(numbers) >= _LARGE for end in ends if end is not None)


def _take_top(rows: LocalBatch, op: TopN) -> LocalBatch:
    """The first rows in an order; of those that are equal in it, any."""
    ranks = [_compute_ranks(rows, order) for order in reversed(op.order)]
    found = np.lexsort(ranks)[op.skip : op.skip + op.limit]
    return LocalBatch(rows.table.take(pa.array(found)), rows.struct)


def _compute_ranks(rows: LocalBatch, order: Expression) -> _Numbers:
    """Numbers that are ordered as the rows are."""
    item = parse_query(f"SELECT 1 ORDER BY {order}").args["order"].expressions[0]
    codes = _to_chunked(to_sortable(evaluate_expression(expression_from_tree(item.this), rows)))
    ranks: _Numbers = pc.rank(codes, "ascending", tiebreaker="min").to_numpy().astype(np.int64)
    ranks = -ranks if item.args["desc"] else ranks
    return np.where(codes.is_null().to_numpy(), -len(ranks) - 1 if item.args["nulls_first"] else len(ranks) + 1, ranks)


# -- joins -------------------------------------------------------------------------------------------------------


def _join_batches(left: LocalBatch, right: LocalBatch, op: Join) -> LocalBatch:
    """Rows are found by their numbers: Arrow joins keys of few types, and need not carry what else is in the rows."""
    plain = op.keys and op.condition is None
    pairs = _match_keys(left, right, op, op.kind) if plain else _match_condition(left, right, op)
    kept = left.table.take(pairs.column(_LEFT))
    if op.kind in (JoinKind.SEMI, JoinKind.ANTI):
        return LocalBatch(kept, left.struct)
    return _combine_columns(
        LocalBatch(kept, left.struct), LocalBatch(right.table.take(pairs.column(_RIGHT)), right.struct)
    )


def _combine_columns(left: LocalBatch, right: LocalBatch) -> LocalBatch:
    names = [*left.struct.names, *right.struct.names]
    if len({*names}) < len(names):
        raise ForSpark("two columns of one name")
    table = pa.table([*left.table.columns, *right.table.columns], names=names)
    return LocalBatch(table, StructType([*left.struct.fields, *right.struct.fields]))


def _match_keys(left: LocalBatch, right: LocalBatch, op: Join, kind: JoinKind) -> pa.Table:
    """The numbers of rows that agree on the keys."""
    if any(left.struct[a].dataType != right.struct[b].dataType for a, b in op.keys):
        raise ForSpark("keys of several types")
    keys = [(_extract_key(left, a), _extract_key(right, b)) for a, b in op.keys]
    if op.safe:
        keys = [_encode_nulls(mine, theirs) for mine, theirs in keys]
    names = [f"k{i}" for i in range(len(keys))]
    mine, theirs = (
        pa.table([*side, _build_row_numbers(rows.table.num_rows)], names=[*names, number])
        for side, rows, number in zip(zip(*keys, strict=True), (left, right), (_LEFT, _RIGHT), strict=True)
    )
    if _has_many_pairs(mine, theirs, names):
        raise ForSpark("many pairs")
    return mine.join(theirs, names, names, _JOINS[kind], coalesce_keys=True)


def _has_many_pairs(mine: pa.Table, theirs: pa.Table, names: list[str]) -> bool:
    """Do more rows agree than can be held? Counted where it is not plain that they do not."""
    few, many = sorted((mine, theirs), key=len)
    if len(few) * len(many) <= _MANY:
        return False
    found = _count_per_key(few, names)
    if len(many) * (pc.max(found.column("count_all")).as_py() or 0) <= _MANY:
        return False
    pairs = found.join(_count_per_key(many, names), names, join_type="inner", right_suffix="_too")
    return (pc.sum(pc.multiply(pairs.column("count_all"), pairs.column("count_all_too"))).as_py() or 0) > _MANY


def _count_per_key(rows: pa.Table, keys: list[str]) -> pa.Table:
    return rows.group_by(keys, use_threads=False).aggregate([([], "count_all")])


def _encode_nulls(mine: pa.ChunkedArray, theirs: pa.ChunkedArray) -> tuple[pa.ChunkedArray, pa.ChunkedArray]:
    """Keys among which NULL agrees with NULL: by their codes, where both sides have any."""
    if not (mine.null_count and theirs.null_count):
        return mine, theirs
    both = pa.chunked_array([*mine.chunks, *theirs.chunks], mine.type).combine_chunks()
    codes = both.dictionary_encode(null_encoding="encode").indices
    return pa.chunked_array([codes[: len(mine)]]), pa.chunked_array([codes[len(mine) :]])


def _match_condition(left: LocalBatch, right: LocalBatch, op: Join) -> pa.Table:
    """The numbers of rows that agree on the keys, if there are any, and satisfy the condition, if there is one."""
    many, others = left.table.num_rows, right.table.num_rows
    if op.keys:
        met = _match_keys(left, right, op, JoinKind.INNER)
    elif many * others > _PAIRS:
        raise ForSpark("many pairs")
    else:
        met = pa.table({_LEFT: np.repeat(np.arange(many), others), _RIGHT: np.tile(np.arange(others), many)})
    if op.condition is not None:
        mine, theirs = left.table.take(met.column(_LEFT)), right.table.take(met.column(_RIGHT))
        met = met.filter(
            evaluate_condition(
                op.condition, _combine_columns(LocalBatch(mine, left.struct), LocalBatch(theirs, right.struct))
            )
        )
    return _to_join_pairs(op.kind, met.column(_LEFT).to_numpy(), met.column(_RIGHT).to_numpy(), many, others)


def _to_join_pairs(kind: JoinKind, mine: _Numbers, theirs: _Numbers, many: int, others: int) -> pa.Table:
    """The pairs of a join of this kind, of rows that met; nobody's number is NULL."""
    match kind:
        case JoinKind.SEMI:
            return pa.table({_LEFT: np.unique(mine)})
        case JoinKind.ANTI:
            return pa.table({_LEFT: _complement_rows(mine, many)})
    pairs = [pa.table({_LEFT: mine, _RIGHT: theirs})]
    if kind in (JoinKind.LEFT, JoinKind.FULL):
        alone = _complement_rows(mine, many)
        pairs.append(pa.table({_LEFT: alone, _RIGHT: pa.nulls(len(alone), pa.int64())}))
    if kind in (JoinKind.RIGHT, JoinKind.FULL):
        alone = _complement_rows(theirs, others)
        pairs.append(pa.table({_LEFT: pa.nulls(len(alone), pa.int64()), _RIGHT: alone}))
    return pa.concat_tables(pairs)


def _complement_rows(rows: _Numbers, of: int) -> _Numbers:
    """The numbers up to a number that are not among these."""
    left = np.ones(of, dtype=np.bool_)
    left[rows] = False
    return np.flatnonzero(left)


def _build_row_numbers(rows: int) -> pa.Array:
    return pa.array(np.arange(rows))


def _extract_key(rows: LocalBatch, name: str) -> pa.ChunkedArray:
    return _to_chunked(to_comparable(ColumnValue(rows.table.column(name), rows.struct[name].dataType)))


def _to_chunked(data: pa.ChunkedArray | pa.Array) -> pa.ChunkedArray:
    return data if isinstance(data, pa.ChunkedArray) else pa.chunked_array([data])
