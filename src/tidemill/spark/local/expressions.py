"""Expressions on Arrow columns, with Spark's semantics.

It supports the expressions that derivation writes, and the simplest of users' expressions: names, literals,
comparisons, logic, arithmetic of integers, decimals and doubles. Spark computes all others, and all that might fail, so
that errors have Spark's messages.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from functools import partial, reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    NullType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)
from sqlglot import exp

from tidemill.algebra.dialect import parse_expression
from tidemill.algebra.expression import Expression
from tidemill.algebra.typing import infer_type
from tidemill.spark.local import decimals
from tidemill.spark.local.batches import LocalBatch

INTEGERS = (IntegerType(), LongType())
"""The integer types that are computed here."""

_NUMBERS = (*INTEGERS, DoubleType())
"""Numeric types, each of which widens to those after it."""

_CASTS = {
    exp.DType.INT: IntegerType(),
    exp.DType.BIGINT: LongType(),
    exp.DType.BOOLEAN: BooleanType(),
    exp.DType.DOUBLE: DoubleType(),
    exp.DType.DATE: DateType(),
    exp.DType.TEXT: StringType(),
}
_EXACT = (
    *(ByteType, ShortType, IntegerType, LongType, DecimalType),
    *(BooleanType, BinaryType, DateType, TimestampType, TimestampNTZType),
)
_BITS: dict[type[DataType], pa.DataType] = {DoubleType: pa.int64(), FloatType: pa.int32()}
_DAY = re.compile(r"\d{4}-\d\d-\d\d")
_SIGN_MASKS = {pa.int64(): (1 << 63) - 1, pa.int32(): (1 << 31) - 1}


Unsupported = decimals.Unsupported


@dataclass(frozen=True, slots=True)
class ColumnValue:
    """The value of an expression for each row."""

    data: pa.ChunkedArray | pa.Array
    type: DataType

    def cast_to(self, kind: DataType) -> ColumnValue:
        """The values in a wider type."""
        if self.type == kind:
            return self
        if isinstance(kind, DecimalType) and self.type != NullType():
            return ColumnValue(decimals.cast_decimal(self.data, kind), kind)
        arrow_type = to_arrow_type(kind, timezone="UTC")
        return ColumnValue(
            pa.nulls(len(self.data), arrow_type) if self.type == NullType() else self.data.cast(arrow_type), kind
        )

    def take_rows(self, rows: pa.ChunkedArray | pa.Array) -> ColumnValue:
        """The values of these row numbers; NULL for a NULL number."""
        return ColumnValue(self.data.take(rows), self.type)


def to_comparable(value: ColumnValue) -> pa.ChunkedArray | pa.Array:
    """Values that are equal in Arrow exactly where Spark treats the originals as equal.

    Floats become their bits, with 0.0 for -0.0 and a single NaN. Strings that are padded or have a collation are
    unsupported.
    """
    bits = _BITS.get(type(value.type))
    if bits is not None:
        plain = pc.add(_combine_chunks(value.data), pa.scalar(0.0, value.data.type))
        return pc.if_else(pc.is_nan(plain), pa.scalar(math.nan, plain.type), plain).view(bits)
    if not isinstance(value.type, _EXACT) and value.type != StringType():
        raise Unsupported(f"equality of {value.type.simpleString()}")
    return value.data


def from_comparable(data: pa.ChunkedArray | pa.Array, kind: DataType) -> ColumnValue:
    """The original values of a type, from comparable values."""
    return ColumnValue(_combine_chunks(data).view(to_arrow_type(kind)) if type(kind) in _BITS else data, kind)


def to_sortable(value: ColumnValue) -> pa.ChunkedArray | pa.Array:
    """Values that Arrow orders as Spark orders the originals. Floats become their bits, inverted for negative
    numbers.
    """
    codes = to_comparable(value)
    if type(value.type) not in _BITS:
        return codes
    inverted = pc.bit_wise_xor(codes, pa.scalar(_SIGN_MASKS[codes.type], codes.type))
    return pc.if_else(pc.less(codes, pa.scalar(0, codes.type)), inverted, codes)


def evaluate_expression(expression: Expression, rows: LocalBatch) -> ColumnValue:
    if "\\" in expression.text:
        raise Unsupported("a backslash")
    return _ExpressionEvaluator(rows).evaluate_tree(parse_expression(expression.text))


def evaluate_condition(expression: Expression, rows: LocalBatch) -> pa.ChunkedArray | pa.Array:
    """Whether the condition is true, for each row."""
    return _to_mask(evaluate_expression(expression, rows))


def widen_to_common(values: Sequence[ColumnValue]) -> list[ColumnValue]:
    """The values in the type that all of them have or widen to."""
    kinds = {v.type for v in values} - {NullType()}
    if len(kinds) < 2:
        kind = next(iter(kinds), NullType())
    elif kinds <= {*_NUMBERS}:
        kind = max(kinds, key=_NUMBERS.index)
    else:
        kind = decimals.find_common_type(kinds)
    return [v.cast_to(kind) for v in values]


class _ExpressionEvaluator:
    """Evaluates expressions over the rows of a batch."""

    def __init__(self, rows: LocalBatch) -> None:
        self._rows = rows

    def evaluate_tree(self, tree: exp.Expr) -> ColumnValue:
        match tree:
            case exp.Paren():
                return self.evaluate_tree(tree.this)
            case exp.Column():
                return self._evaluate_column(tree)
            case exp.Null() | exp.Boolean() | exp.Literal() | exp.Neg(this=exp.Literal()):
                return self._evaluate_literal(tree)
            case exp.Cast(this=exp.Literal(is_string=True, name=day)) if tree.to.this is exp.DType.DATE:
                return self._repeat_scalar(_parse_day(day), DateType())
            case exp.Cast():  # TRY_CAST is a subclass
                return cast_value(self.evaluate_tree(tree.this), tree.to)
            case exp.Neg():
                return _apply_arithmetic(pc.negate_checked, [self.evaluate_tree(tree.this)])
            case exp.Is(expression=exp.Null()):
                return ColumnValue(self.evaluate_tree(tree.this).data.is_null(), BooleanType())
            case exp.Between(args={"low": low, "high": high}) if not tree.args.get("symmetric"):
                sides = self.evaluate_tree(tree.this), self.evaluate_tree(low), self.evaluate_tree(high)
                return _apply_logic(
                    pc.and_kleene,
                    [_compare_order(pc.greater_equal, sides[:2]), _compare_order(pc.less_equal, sides[::2])],
                )
            case exp.In(expressions=[_, *_] as options):
                matches = (
                    _compare_equality(pc.equal, [self.evaluate_tree(tree.this), self.evaluate_tree(e)]) for e in options
                )
                return reduce(lambda result, match_value: _apply_logic(pc.or_kleene, [result, match_value]), matches)
            case exp.Coalesce():
                values = widen_to_common([self.evaluate_tree(e) for e in (tree.this, *tree.expressions)])
                return ColumnValue(pc.coalesce(*(v.data for v in values)), values[0].type)
            case exp.If(args={"true": exp.Cast(this=exp.Anonymous(name="RAISE_ERROR")), "false": checked}):
                if pc.any(_to_mask(self.evaluate_tree(tree.this))).as_py():
                    raise Unsupported("a failed check")
                return self.evaluate_tree(checked)
            case exp.If():
                return self._evaluate_case([tree], tree.args.get("false"))
            case exp.Case(this=None):
                return self._evaluate_case(tree.args["ifs"], tree.args.get("default"))
            case exp.Anonymous(name="STRUCT"):
                return self._evaluate_struct(tree.expressions)
            case exp.Like(expression=exp.Literal(is_string=True, name=pattern)):
                matched = pc.match_like(_to_text(self.evaluate_tree(tree.this)), pattern)
                return ColumnValue(pc.invert(matched) if tree.args.get("negate") else matched, BooleanType())
            case exp.Substring(args={"start": exp.Literal(is_int=True), "length": exp.Literal(is_int=True)}):
                return _take_substring(
                    self.evaluate_tree(tree.this), int(tree.args["start"].name), int(tree.args["length"].name)
                )
            case exp.Extract(this=exp.Var(name="YEAR")):
                return _extract_year(self.evaluate_tree(tree.expression))
            case exp.Add() | exp.Sub() | exp.Mul() | exp.Div() | exp.Mod():
                return self._evaluate_arithmetic(tree)
        function = _FUNCTIONS.get(type(tree))
        if function is None:
            raise Unsupported(type(tree).__name__)
        return function([self.evaluate_tree(side) for side in tree.iter_expressions()])

    def _evaluate_column(self, tree: exp.Column) -> ColumnValue:
        path = [part.name for part in tree.parts]
        if path[0] not in self._rows.struct.names:
            raise Unsupported(f"no column {path[0]}")
        value = ColumnValue(self._rows.table.column(path[0]), self._rows.struct[path[0]].dataType)
        return reduce(_extract_field, path[1:], value)

    def _evaluate_literal(self, tree: exp.Expr) -> ColumnValue:
        scalar = _to_scalar(tree)
        return self._repeat_scalar(
            scalar, _KINDS.get(scalar.type) or DecimalType(scalar.type.precision, scalar.type.scale)
        )

    def _repeat_scalar(self, scalar: pa.Scalar, kind: DataType) -> ColumnValue:
        """The same value for every row."""
        return ColumnValue(pa.repeat(scalar, self._rows.table.num_rows), kind)

    def _evaluate_arithmetic(self, tree: exp.Binary) -> ColumnValue:
        trees = tree.this, tree.expression
        sides = [self.evaluate_tree(side) for side in trees]
        if any(isinstance(side.type, DecimalType) for side in sides):
            return _OF_DECIMALS[type(tree)](*(_to_decimal(*side) for side in zip(trees, sides, strict=True)))
        return _OF_NUMBERS[type(tree)](sides)

    def _evaluate_case(self, ifs: Sequence[exp.Expr], default: exp.Expr | None) -> ColumnValue:
        values = widen_to_common(
            [self.evaluate_tree(e) for e in (*(i.args["true"] for i in ifs), default or exp.Null())]
        )
        kind, result = values[-1].type, values[-1].data
        for when, then in zip(reversed(ifs), reversed(values[:-1]), strict=True):
            result = pc.if_else(_to_mask(self.evaluate_tree(when.this)), then.data, result)
        return ColumnValue(result, kind)

    def _evaluate_struct(self, fields: Sequence[exp.Expr]) -> ColumnValue:
        if not all(isinstance(field, exp.Column) and len(field.parts) == 1 for field in fields):
            raise Unsupported("a struct with unnamed fields")
        names = [field.name for field in fields]
        values = [self.evaluate_tree(field) for field in fields]
        data = pa.StructArray.from_arrays([_combine_chunks(v.data) for v in values], names)
        return ColumnValue(data, StructType([StructField(n, v.type) for n, v in zip(names, values, strict=True)]))


_KINDS: dict[pa.DataType, DataType] = {
    pa.null(): NullType(),
    pa.bool_(): BooleanType(),
    pa.string(): StringType(),
    pa.int32(): IntegerType(),
    pa.int64(): LongType(),
}


def _to_scalar(tree: exp.Expr) -> pa.Scalar:
    """A literal, in the type that Spark gives it."""
    match tree:
        case exp.Null():
            return pa.scalar(None)
        case exp.Boolean():
            return pa.scalar(bool(tree.this))
        case exp.Literal(is_string=True):
            return pa.scalar(tree.name)
        case exp.Literal(is_int=True) | exp.Neg(this=exp.Literal(is_int=True)):
            number = int(tree.name) if isinstance(tree, exp.Literal) else -int(tree.this.name)
            if -(1 << 63) < number < 1 << 63:
                return pa.scalar(number, pa.int32() if -(1 << 31) < number < 1 << 31 else pa.int64())
        case exp.Literal() if decimal_type := decimals.parse_literal_type(infer_type(tree, {})):
            return pa.scalar(Decimal(tree.name), decimal_type)
    raise Unsupported(str(tree))


def _extract_field(struct: ColumnValue, name: str) -> ColumnValue:
    if not isinstance(struct.type, StructType) or name not in struct.type.names:
        raise Unsupported(f"no field {name}")
    return ColumnValue(pc.struct_field(struct.data, name), struct.type[name].dataType)


def _combine_chunks(data: pa.ChunkedArray | pa.Array) -> pa.Array:
    return data.combine_chunks() if isinstance(data, pa.ChunkedArray) else data


def cast_value(value: ColumnValue, target: exp.DataType) -> ColumnValue:
    if target.this is exp.DType.DECIMAL:
        kind = DecimalType(*(int(p.name) for p in target.expressions))
        if value.type != NullType():
            decimals.to_decimal_type(value.type)
        return value.cast_to(kind)
    return _cast_to_kind(value, _CASTS.get(target.this))


def _cast_to_kind(value: ColumnValue, kind: DataType | None) -> ColumnValue:
    if kind is None or value.type not in (kind, NullType(), *(INTEGERS if kind in _NUMBERS else ())):
        raise Unsupported(f"a cast of {value.type.simpleString()}")
    return value.cast_to(kind)


def _parse_day(text: str) -> pa.Scalar:
    try:
        if _DAY.fullmatch(text):
            return pa.scalar(date.fromisoformat(text))
    except ValueError as error:
        raise Unsupported(text) from error
    raise Unsupported(text)


def _extract_year(value: ColumnValue) -> ColumnValue:
    if value.type != DateType():
        raise Unsupported(f"the year of {value.type.simpleString()}")
    return ColumnValue(pc.year(value.data).cast(pa.int32()), IntegerType())


def _to_text(value: ColumnValue) -> pa.ChunkedArray | pa.Array:
    if value.type != StringType():
        raise Unsupported(f"{value.type.simpleString()} is no text")
    return value.data


def _take_substring(value: ColumnValue, start: int, length: int) -> ColumnValue:
    """A substring of `length` characters; the first character has the number 1."""
    if not start:
        raise Unsupported("a substring from position 0")
    return ColumnValue(pc.utf8_slice_codeunits(_to_text(value), start - 1, start - 1 + length), StringType())


def _to_mask(value: ColumnValue) -> pa.ChunkedArray | pa.Array:
    return pc.fill_null(_to_boolean(value), False)


def _to_boolean(value: ColumnValue) -> pa.ChunkedArray | pa.Array:
    if value.type not in (BooleanType(), NullType()):
        raise Unsupported(f"{value.type.simpleString()} is no condition")
    return value.cast_to(BooleanType()).data


def _apply_logic(function: Callable[..., Any], sides: Iterable[ColumnValue]) -> ColumnValue:
    return ColumnValue(function(*map(_to_boolean, sides)), BooleanType())


def _apply_arithmetic(
    function: Callable[..., Any], sides: Sequence[ColumnValue], types: Sequence[DataType] = _NUMBERS
) -> ColumnValue:
    """Arithmetic of numbers; overflow is left to Spark."""
    numbers = widen_to_common(sides)
    if numbers[0].type not in types:
        raise Unsupported(f"arithmetic of {numbers[0].type.simpleString()}")
    return ColumnValue(function(*(n.data for n in numbers)), numbers[0].type)


def _divide_numbers(sides: Sequence[ColumnValue]) -> ColumnValue:
    """Numbers are divided as doubles; division by zero is left to Spark."""
    return _apply_arithmetic(pc.divide_checked, [_cast_to_kind(side, DoubleType()) for side in sides])


def _compute_remainder(a: pa.ChunkedArray | pa.Array, b: pa.ChunkedArray | pa.Array) -> pa.ChunkedArray | pa.Array:
    return pc.subtract_checked(a, pc.multiply_checked(pc.divide_checked(a, b), b))


def _compare_equality(function: Callable[..., Any], sides: Sequence[ColumnValue]) -> ColumnValue:
    return ColumnValue(function(*map(to_comparable, widen_to_common(sides))), BooleanType())


def _compare_order(function: Callable[..., Any], sides: Sequence[ColumnValue]) -> ColumnValue:
    return ColumnValue(function(*map(to_sortable, widen_to_common(sides))), BooleanType())


def _equal_null_safe(a: pa.ChunkedArray | pa.Array, b: pa.ChunkedArray | pa.Array) -> pa.ChunkedArray | pa.Array:
    return pc.or_(pc.fill_null(pc.equal(a, b), False), pc.and_(a.is_null(), b.is_null()))


def _to_decimal(tree: exp.Expr, value: ColumnValue) -> ColumnValue:
    """An operand of decimal arithmetic. An integer literal counts by its digits only."""
    match tree.unnest():
        case exp.Literal(is_int=True, name=number) | exp.Neg(this=exp.Literal(is_int=True, name=number)):
            return value.cast_to(DecimalType(len(str(int(number))), 0))
        case exp.Cast(this=exp.Literal()):
            raise Unsupported("a cast literal")
    return value.cast_to(decimals.to_decimal_type(value.type))


def _apply_decimal(
    kind: Callable[[DecimalType, DecimalType], DecimalType],
    compute: Callable[..., Any],
    a: ColumnValue,
    b: ColumnValue,
) -> ColumnValue:
    result = kind(decimals.to_decimal_type(a.type), decimals.to_decimal_type(b.type))
    return ColumnValue(compute(a.data, b.data, result), result)


_OF_DECIMALS: dict[type[exp.Expr], Callable[[ColumnValue, ColumnValue], ColumnValue]] = {
    exp.Add: partial(_apply_decimal, decimals.infer_sum_type, partial(decimals.compute_exact, pc.add)),
    exp.Sub: partial(_apply_decimal, decimals.infer_sum_type, partial(decimals.compute_exact, pc.subtract)),
    exp.Mul: partial(_apply_decimal, decimals.infer_product_type, partial(decimals.compute_exact, pc.multiply)),
    exp.Div: partial(_apply_decimal, decimals.infer_quotient_type, decimals.divide_exact),
    exp.Mod: partial(_apply_decimal, decimals.infer_remainder_type, decimals.compute_remainder),
}
_OF_NUMBERS: dict[type[exp.Expr], Callable[[Sequence[ColumnValue]], ColumnValue]] = {
    exp.Add: partial(_apply_arithmetic, pc.add_checked),
    exp.Sub: partial(_apply_arithmetic, pc.subtract_checked),
    exp.Mul: partial(_apply_arithmetic, pc.multiply_checked),
    exp.Div: _divide_numbers,
    exp.Mod: partial(_apply_arithmetic, _compute_remainder, types=INTEGERS),
}
_FUNCTIONS: dict[type[exp.Expr], Callable[[Sequence[ColumnValue]], ColumnValue]] = {
    exp.And: partial(_apply_logic, pc.and_kleene),
    exp.Or: partial(_apply_logic, pc.or_kleene),
    exp.Not: partial(_apply_logic, pc.invert),
    exp.EQ: partial(_compare_equality, pc.equal),
    exp.NEQ: partial(_compare_equality, pc.not_equal),
    exp.NullSafeEQ: partial(_compare_equality, _equal_null_safe),
    exp.GT: partial(_compare_order, pc.greater),
    exp.GTE: partial(_compare_order, pc.greater_equal),
    exp.LT: partial(_compare_order, pc.less),
    exp.LTE: partial(_compare_order, pc.less_equal),
}
