"""Operators on local batches, with the semantics of `tests.algebra.evaluate`.

A small change touches few rows: joining and grouping a few thousand rows takes Arrow a few milliseconds, and Spark a
tenth of a second, mostly for planning. So operators with certain semantics are computed here (`local.expressions` has
the expressions), and Spark computes the rest.
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
    BlockScan,
    Explode,
    Filter,
    Join,
    JoinKind,
    Operator,
    Projection,
    SingleRow,
    StepReference,
    TopN,
    Union,
    list_children,
)
from tidemill.algebra.restrict import Pairs, restrict_rows
from tidemill.spark.local import decimals
from tidemill.spark.local.batches import MAX_SINGLE_TASK_ROWS, LocalBatch
from tidemill.spark.local.expressions import (
    INTEGERS,
    ColumnValue,
    Unsupported,
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
_NEEDS_LEFT = (JoinKind.INNER, JoinKind.LEFT, JoinKind.SEMI, JoinKind.ANTI)
"""Joins that have no row without one on the left; and on the right."""
_NEEDS_RIGHT = (JoinKind.INNER, JoinKind.RIGHT, JoinKind.SEMI)

_LEFT, _RIGHT = "left", "right"
"""Columns of row numbers."""

_Numbers = npt.NDArray[np.int64]

_MAX_SUM = 1 << 62
"""Sums that may reach this are left to Spark."""

_MAX_REPEATS = 10_000
"""The maximum number of copies of one row; more are left to Spark."""

_MAX_TESTED_PAIRS = 1 << 20
"""Pairs of rows that are tested one by one; more are left to Spark, which need not hold them all at once."""

_MAX_KEY_PAIRS = 1 << 24
"""Pairs of rows with equal keys that are held in memory."""


class LocalExecutor:
    """Computes operators, each once; None for those that Spark must compute."""

    def __init__(self, read_leaf: Callable[[Operator], LocalBatch | None]) -> None:
        """`read_leaf`: the rows of an operator that are available without computation."""
        self._read_leaf = read_leaf
        self._results: dict[Operator, LocalBatch | None] = {}
        self._numbers = count()

    def __call__(self, op: Operator) -> LocalBatch | None:
        if op not in self._results:
            try:
                self._results[op] = self._compute_operator(op)
            except (Unsupported, pa.ArrowException):
                self._results[op] = None
        return self._results[op]

    def _compute_operator(self, op: Operator) -> LocalBatch | None:
        if not op.columns or len({*op.columns}) < len(op.columns):
            return None
        available = self._read_leaf(op)
        if available is not None:
            return available
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
        """The result, if it was already computed."""
        return self._results.get(op)

    def _compute_join(self, op: Join) -> LocalBatch:
        """Join; of a side that may be large, only the rows that can match the other side are computed, if those are
        few.
        """
        if op.keys and op.kind in _NEEDS_LEFT and is_small(op.left) and not _is_available(op.right):
            left = self._compute_rows(op.left)
            return _join_batches(
                left,
                self._find_candidates(op.right, left, tuple((right_key, left_key) for left_key, right_key in op.keys)),
                op,
            )
        if op.keys and op.kind in _NEEDS_RIGHT and is_small(op.right) and not _is_available(op.left):
            right = self._compute_rows(op.right)
            return _join_batches(self._find_candidates(op.left, right, op.keys), right, op)
        return _join_batches(self._compute_rows(op.left), self._compute_rows(op.right), op)

    def _find_candidates(self, op: Operator, rows: LocalBatch, on: Pairs) -> LocalBatch:
        if rows.table.num_rows > MAX_SINGLE_TASK_ROWS:
            return self._compute_rows(op)
        keys = rows.select_columns(list(dict.fromkeys(key for _, key in on)))
        reference = StepReference(
            f"near {next(self._numbers)}", tuple(keys.struct.names)
        )  # other steps run concurrently
        self._results[reference] = keys
        restricted = restrict_rows(op, reference, on)
        return self._compute_rows(
            op if isinstance(restricted, Join) and restricted.left is op else restricted
        )  # no rows are saved

    def _compute_rows(self, op: Operator) -> LocalBatch:
        rows = self(op)
        if rows is None:
            raise Unsupported(type(op).__name__)
        return rows


def is_small(op: Operator) -> bool:
    """Whether it is computed from few rows: those of a small change or of a step."""
    match op:
        case BlockScan():
            return op.is_change
        case Join(kind=JoinKind.INNER | JoinKind.SEMI) if op.keys:
            return is_small(op.left) or is_small(op.right)
        case Join(kind=JoinKind.LEFT | JoinKind.SEMI | JoinKind.ANTI):
            return is_small(op.left)
        case _:
            return all(map(is_small, list_children(op)))


def _is_available(op: Operator) -> bool:
    """Whether it is available without computation, or small itself."""
    return isinstance(op, BlockScan | StepReference) or is_small(op)


def _build_batch(columns: Sequence[tuple[str, ColumnValue]]) -> LocalBatch:
    struct = StructType([StructField(name, v.type) for name, v in columns])
    return LocalBatch(pa.table({name: v.data for name, v in columns}), struct)


def _union_batches(parts: Sequence[LocalBatch]) -> LocalBatch:
    names = parts[0].struct.names
    columns = {n: widen_to_common([ColumnValue(p.table.column(n), p.struct[n].dataType) for p in parts]) for n in names}
    tables = [pa.table({n: columns[n][i].data for n in names}) for i in range(len(parts))]
    return LocalBatch(pa.concat_tables(tables), StructType([StructField(n, columns[n][0].type) for n in names]))


def _repeat_rows(rows: LocalBatch, op: Explode) -> LocalBatch:
    """Each row repeated: the only use of explode in derived operators."""
    generator = parse_expression(op.generator.text)
    match op.outputs, generator.this:
        case [name], exp.Anonymous(name="ARRAY_REPEAT", expressions=[exp.Literal(name="0"), exp.Cast() as times]):
            repeats = evaluate_expression(expression_from_tree(times.this.copy()), rows)
        case _:
            raise Unsupported(op.generator.text)
    if repeats.type not in INTEGERS:
        raise Unsupported(f"{repeats.type.simpleString()} times")
    counts = pc.fill_null(repeats.data, 0).to_numpy()
    if counts.max(initial=0) > _MAX_REPEATS:
        raise Unsupported("a row very many times")
    table = rows.table.take(np.repeat(np.arange(len(counts)), np.maximum(counts, 0)))
    zeros = pa.repeat(pa.scalar(0, pa.int32()), len(table))
    return LocalBatch(table, rows.struct).add_column(StructField(name, IntegerType()), zeros)


# -- groups ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Aggregation:
    """How Arrow computes an aggregate: the sum, minimum or maximum of these numbers, and the conversion of its
    result.
    """

    numbers: pa.ChunkedArray | pa.Array
    function: str
    finish: Callable[[pa.ChunkedArray], ColumnValue]


def _group_rows(rows: LocalBatch, op: Aggregation) -> LocalBatch:
    aggregations = [_build_aggregation(fold, rows) for fold in op.calls]
    keys, numbers = [f"k{i}" for i in range(len(op.keys))], [f"n{i}" for i in range(len(aggregations))]
    columns = [*(_extract_key(rows, k) for k in op.keys), *(w.numbers for w in aggregations)]
    grouped = pa.table(columns, names=[*keys, *numbers]).group_by(keys, use_threads=False)
    results = grouped.aggregate([(n, w.function) for n, w in zip(numbers, aggregations, strict=True)])
    key_columns = [
        (k, from_comparable(results.column(n), rows.struct[k].dataType)) for k, n in zip(op.keys, keys, strict=True)
    ]
    calls = zip(op.calls, numbers, aggregations, strict=True)
    return _build_batch([*key_columns, *((f.name, w.finish(results.column(f"{n}_{w.function}"))) for f, n, w in calls)])


def _build_aggregation(call: AggregateCall, rows: LocalBatch) -> _Aggregation:
    if call.text:
        raise Unsupported(call.function)
    aggregation = _build_plain_aggregation(call, rows)
    if not call.cast:
        return aggregation
    target_type = exp.DataType.build(call.cast, dialect="spark")
    return replace(aggregation, finish=lambda numbers: cast_value(aggregation.finish(numbers), target_type))


def _build_plain_aggregation(call: AggregateCall, rows: LocalBatch) -> _Aggregation:
    arguments = [evaluate_expression(a, rows) for a in call.arguments]
    if call.function == "count":
        valid = reduce(pc.and_, (g.data.is_valid() for g in arguments), pa.repeat(True, rows.table.num_rows))
        return _Aggregation(valid.cast(pa.int64()), "sum", lambda numbers: ColumnValue(numbers, LongType()))
    if not arguments:
        raise Unsupported(call.function)
    first, *other_arguments = arguments
    match call.function, other_arguments:
        case "sum", [] if first.type in INTEGERS:
            if _can_overflow(first.data):
                raise Unsupported("a sum that may be too large")
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
                return _Aggregation(codes, call.function, lambda values: ColumnValue(values, first.type))
            sorted_rows = pc.sort_indices(codes)
            ranks = pc.if_else(codes.is_valid(), pc.sort_indices(sorted_rows), None)
            return _Aggregation(ranks, call.function, lambda ranks: first.take_rows(sorted_rows.take(ranks)))
        case "any_value", [_] if call.arguments[1] == build_literal("TRUE"):  # of the values that are not NULL
            positions = pc.if_else(first.data.is_valid(), _build_row_numbers(len(first.data)), None)
            return _Aggregation(positions, "min", first.take_rows)
        case "max_by", [order] if order.type in INTEGERS and not order.data.null_count:
            sorted_rows = pc.sort_indices(order.data)
            return _Aggregation(
                pc.sort_indices(sorted_rows), "max", lambda ranks: first.take_rows(sorted_rows.take(ranks))
            )
    raise Unsupported(call.function)


def _can_overflow(numbers: pa.ChunkedArray | pa.Array) -> bool:
    extremes = pc.min_max(numbers).as_py().values()
    return any(abs(end) * len(numbers) >= _MAX_SUM for end in extremes if end is not None)


def _take_top(rows: LocalBatch, op: TopN) -> LocalBatch:
    """The first rows in an order; ties are broken arbitrarily."""
    ranks = [_compute_ranks(rows, order) for order in reversed(op.order)]
    positions = np.lexsort(ranks)[op.skip : op.skip + op.limit]
    return LocalBatch(rows.table.take(pa.array(positions)), rows.struct)


def _compute_ranks(rows: LocalBatch, order: Expression) -> _Numbers:
    """Numbers in the same order as the rows."""
    item = parse_query(f"SELECT 1 ORDER BY {order}").args["order"].expressions[0]
    codes = _to_chunked(to_sortable(evaluate_expression(expression_from_tree(item.this), rows)))
    ranks: _Numbers = pc.rank(codes, "ascending", tiebreaker="min").to_numpy().astype(np.int64)
    ranks = -ranks if item.args["desc"] else ranks
    return np.where(codes.is_null().to_numpy(), -len(ranks) - 1 if item.args["nulls_first"] else len(ranks) + 1, ranks)


# -- joins -------------------------------------------------------------------------------------------------------


def _join_batches(left: LocalBatch, right: LocalBatch, op: Join) -> LocalBatch:
    """Rows are matched by their numbers: Arrow joins keys of few types, and need not copy the other columns."""
    is_equality_only = op.keys and op.condition is None
    pairs = _match_keys(left, right, op, op.kind) if is_equality_only else _match_condition(left, right, op)
    left_rows = left.table.take(pairs.column(_LEFT))
    if op.kind in (JoinKind.SEMI, JoinKind.ANTI):
        return LocalBatch(left_rows, left.struct)
    return _combine_columns(
        LocalBatch(left_rows, left.struct), LocalBatch(right.table.take(pairs.column(_RIGHT)), right.struct)
    )


def _combine_columns(left: LocalBatch, right: LocalBatch) -> LocalBatch:
    names = [*left.struct.names, *right.struct.names]
    if len({*names}) < len(names):
        raise Unsupported("two columns of one name")
    table = pa.table([*left.table.columns, *right.table.columns], names=names)
    return LocalBatch(table, StructType([*left.struct.fields, *right.struct.fields]))


def _match_keys(left: LocalBatch, right: LocalBatch, op: Join, kind: JoinKind) -> pa.Table:
    """The pairs of row numbers with equal keys."""
    if any(left.struct[a].dataType != right.struct[b].dataType for a, b in op.keys):
        raise Unsupported("keys of several types")
    keys = [(_extract_key(left, a), _extract_key(right, b)) for a, b in op.keys]
    if op.null_safe:
        keys = [_encode_nulls(left_table, right_table) for left_table, right_table in keys]
    names = [f"k{i}" for i in range(len(keys))]
    left_table, right_table = (
        pa.table([*side, _build_row_numbers(rows.table.num_rows)], names=[*names, number])
        for side, rows, number in zip(zip(*keys, strict=True), (left, right), (_LEFT, _RIGHT), strict=True)
    )
    if _has_many_pairs(left_table, right_table, names):
        raise Unsupported("many pairs")
    return left_table.join(right_table, names, names, _JOINS[kind], coalesce_keys=True)


def _has_many_pairs(left: pa.Table, right: pa.Table, names: list[str]) -> bool:
    """Whether more rows match than can be held in memory; counted only if the sizes do not rule it out."""
    smaller, larger = sorted((left, right), key=len)
    if len(smaller) * len(larger) <= _MAX_KEY_PAIRS:
        return False
    counts = _count_per_key(smaller, names)
    if len(larger) * (pc.max(counts.column("count_all")).as_py() or 0) <= _MAX_KEY_PAIRS:
        return False
    pairs = counts.join(_count_per_key(larger, names), names, join_type="inner", right_suffix="_too")
    return (pc.sum(pc.multiply(pairs.column("count_all"), pairs.column("count_all_too"))).as_py() or 0) > _MAX_KEY_PAIRS


def _count_per_key(rows: pa.Table, keys: list[str]) -> pa.Table:
    return rows.group_by(keys, use_threads=False).aggregate([([], "count_all")])


def _encode_nulls(left: pa.ChunkedArray, right: pa.ChunkedArray) -> tuple[pa.ChunkedArray, pa.ChunkedArray]:
    """Keys where NULL equals NULL: encoded as codes if both sides have NULLs."""
    if not (left.null_count and right.null_count):
        return left, right
    values = pa.chunked_array([*left.chunks, *right.chunks], left.type).combine_chunks()
    codes = values.dictionary_encode(null_encoding="encode").indices
    return pa.chunked_array([codes[: len(left)]]), pa.chunked_array([codes[len(left) :]])


def _match_condition(left: LocalBatch, right: LocalBatch, op: Join) -> pa.Table:
    """The pairs of row numbers with equal keys, if there are keys, that satisfy the condition, if there is one."""
    left_count, right_count = left.table.num_rows, right.table.num_rows
    if op.keys:
        pairs = _match_keys(left, right, op, JoinKind.INNER)
    elif left_count * right_count > _MAX_TESTED_PAIRS:
        raise Unsupported("many pairs")
    else:
        pairs = pa.table(
            {_LEFT: np.repeat(np.arange(left_count), right_count), _RIGHT: np.tile(np.arange(right_count), left_count)}
        )
    if op.condition is not None:
        left_rows, right_rows = left.table.take(pairs.column(_LEFT)), right.table.take(pairs.column(_RIGHT))
        pairs = pairs.filter(
            evaluate_condition(
                op.condition, _combine_columns(LocalBatch(left_rows, left.struct), LocalBatch(right_rows, right.struct))
            )
        )
    return _to_join_pairs(
        op.kind, pairs.column(_LEFT).to_numpy(), pairs.column(_RIGHT).to_numpy(), left_count, right_count
    )


def _to_join_pairs(
    kind: JoinKind, left_matches: _Numbers, right_matches: _Numbers, left_count: int, right_count: int
) -> pa.Table:
    """The result pairs of a join of this kind, given the matched pairs; the number of a missing row is NULL."""
    match kind:
        case JoinKind.SEMI:
            return pa.table({_LEFT: np.unique(left_matches)})
        case JoinKind.ANTI:
            return pa.table({_LEFT: _complement_rows(left_matches, left_count)})
    pairs = [pa.table({_LEFT: left_matches, _RIGHT: right_matches})]
    if kind in (JoinKind.LEFT, JoinKind.FULL):
        unmatched = _complement_rows(left_matches, left_count)
        pairs.append(pa.table({_LEFT: unmatched, _RIGHT: pa.nulls(len(unmatched), pa.int64())}))
    if kind in (JoinKind.RIGHT, JoinKind.FULL):
        unmatched = _complement_rows(right_matches, right_count)
        pairs.append(pa.table({_LEFT: pa.nulls(len(unmatched), pa.int64()), _RIGHT: unmatched}))
    return pa.concat_tables(pairs)


def _complement_rows(rows: _Numbers, total: int) -> _Numbers:
    """The numbers below `total` that are not among these."""
    is_missing = np.ones(total, dtype=np.bool_)
    is_missing[rows] = False
    return np.flatnonzero(is_missing)


def _build_row_numbers(rows: int) -> pa.Array:
    return pa.array(np.arange(rows))


def _extract_key(rows: LocalBatch, name: str) -> pa.ChunkedArray:
    return _to_chunked(to_comparable(ColumnValue(rows.table.column(name), rows.struct[name].dataType)))


def _to_chunked(data: pa.ChunkedArray | pa.Array) -> pa.ChunkedArray:
    return data if isinstance(data, pa.ChunkedArray) else pa.chunked_array([data])
