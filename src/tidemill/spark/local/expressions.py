"""Expressions on Arrow columns, with the meaning that Spark gives them.

Those that derivation writes, and the plainest of users': names, literals, comparisons, logic, arithmetic of whole
numbers, decimals and doubles. All else is for Spark to compute, and so is whatever might fail, which it does in its own
words.
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

WHOLE = (IntegerType(), LongType())
"""The types of whole numbers that are computed here."""

_NUMBERS = (*WHOLE, DoubleType())
"""Types of numbers, each of which widens to those after it."""

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
_ALL_BUT_THE_SIGN = {pa.int64(): (1 << 63) - 1, pa.int32(): (1 << 31) - 1}


ForSpark = decimals.Unsupported


@dataclass(frozen=True, slots=True)
class ColumnValue:
    """What an expression is for each row."""

    data: pa.ChunkedArray | pa.Array
    type: DataType

    def cast_to(self, kind: DataType) -> ColumnValue:
        """In a wider type."""
        if self.type == kind:
            return self
        if isinstance(kind, DecimalType) and self.type != NullType():
            return ColumnValue(decimals.cast_decimal(self.data, kind), kind)
        wanted = to_arrow_type(kind, timezone="UTC")
        return ColumnValue(
            pa.nulls(len(self.data), wanted) if self.type == NullType() else self.data.cast(wanted), kind
        )

    def take_rows(self, rows: pa.ChunkedArray | pa.Array) -> ColumnValue:
        """Of the rows of these numbers; NULL of none."""
        return ColumnValue(self.data.take(rows), self.type)


def to_comparable(found: ColumnValue) -> pa.ChunkedArray | pa.Array:
    """What Arrow holds for equal exactly where Spark holds the values for equal.

    Of floats their bits, with -0.0 for 0.0 and one NaN for all of them. Not texts that are padded or collate.
    """
    bits = _BITS.get(type(found.type))
    if bits is not None:
        plain = pc.add(_combine_chunks(found.data), pa.scalar(0.0, found.data.type))
        return pc.if_else(pc.is_nan(plain), pa.scalar(math.nan, plain.type), plain).view(bits)
    if not isinstance(found.type, _EXACT) and found.type != StringType():
        raise ForSpark(f"equality of {found.type.simpleString()}")
    return found.data


def from_comparable(data: pa.ChunkedArray | pa.Array, kind: DataType) -> ColumnValue:
    """The values of a type that were made comparable."""
    return ColumnValue(_combine_chunks(data).view(to_arrow_type(kind)) if type(kind) in _BITS else data, kind)


def to_sortable(found: ColumnValue) -> pa.ChunkedArray | pa.Array:
    """What Arrow orders as Spark orders the values. Of floats their bits, those of negative ones turned around."""
    codes = to_comparable(found)
    if type(found.type) not in _BITS:
        return codes
    turned = pc.bit_wise_xor(codes, pa.scalar(_ALL_BUT_THE_SIGN[codes.type], codes.type))
    return pc.if_else(pc.less(codes, pa.scalar(0, codes.type)), turned, codes)


def evaluate_expression(expression: Expression, rows: LocalBatch) -> ColumnValue:
    if "\\" in expression.text:
        raise ForSpark("what a backslash means")
    return _ExpressionEvaluator(rows).evaluate_tree(parse_expression(expression.text))


def evaluate_condition(expression: Expression, rows: LocalBatch) -> pa.ChunkedArray | pa.Array:
    """For each row whether the condition is true."""
    return _to_mask(evaluate_expression(expression, rows))


def widen_to_common(values: Sequence[ColumnValue]) -> list[ColumnValue]:
    """The values in the one type that all of them have or widen to."""
    kinds = {v.type for v in values} - {NullType()}
    if len(kinds) < 2:
        kind = next(iter(kinds), NullType())
    elif kinds <= {*_NUMBERS}:
        kind = max(kinds, key=_NUMBERS.index)
    else:
        kind = decimals.find_common_type(kinds)
    return [v.cast_to(kind) for v in values]


class _ExpressionEvaluator:
    """The terms of an expression over some rows."""

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
            case exp.Cast():  # TRY_CAST is one, too
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
            case exp.In(expressions=[_, *_] as listed):
                agreeing = (
                    _compare_equality(pc.equal, [self.evaluate_tree(tree.this), self.evaluate_tree(e)]) for e in listed
                )
                return reduce(lambda any_of, one: _apply_logic(pc.or_kleene, [any_of, one]), agreeing)
            case exp.Coalesce():
                values = widen_to_common([self.evaluate_tree(e) for e in (tree.this, *tree.expressions)])
                return ColumnValue(pc.coalesce(*(v.data for v in values)), values[0].type)
            case exp.If():
                return self._evaluate_case([tree], tree.args.get("false"))
            case exp.Case(this=None):
                return self._evaluate_case(tree.args["ifs"], tree.args.get("default"))
            case exp.Anonymous(name="STRUCT"):
                return self._evaluate_struct(tree.expressions)
            case exp.Like(expression=exp.Literal(is_string=True, name=pattern)):
                found = pc.match_like(_to_text(self.evaluate_tree(tree.this)), pattern)
                return ColumnValue(pc.invert(found) if tree.args.get("negate") else found, BooleanType())
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
            raise ForSpark(type(tree).__name__)
        return function([self.evaluate_tree(side) for side in tree.iter_expressions()])

    def _evaluate_column(self, tree: exp.Column) -> ColumnValue:
        path = [part.name for part in tree.parts]
        if path[0] not in self._rows.struct.names:
            raise ForSpark(f"no column {path[0]}")
        found = ColumnValue(self._rows.table.column(path[0]), self._rows.struct[path[0]].dataType)
        return reduce(_extract_field, path[1:], found)

    def _evaluate_literal(self, tree: exp.Expr) -> ColumnValue:
        found = _to_scalar(tree)
        return self._repeat_scalar(found, _KINDS.get(found.type) or DecimalType(found.type.precision, found.type.scale))

    def _repeat_scalar(self, found: pa.Scalar, kind: DataType) -> ColumnValue:
        """The same for every row."""
        return ColumnValue(pa.repeat(found, self._rows.table.num_rows), kind)

    def _evaluate_arithmetic(self, tree: exp.Binary) -> ColumnValue:
        trees = tree.this, tree.expression
        sides = [self.evaluate_tree(side) for side in trees]
        if any(isinstance(side.type, DecimalType) for side in sides):
            return _OF_DECIMALS[type(tree)](*(_to_decimal(*side) for side in zip(trees, sides, strict=True)))
        return _OF_NUMBERS[type(tree)](sides)

    def _evaluate_case(self, ifs: Sequence[exp.Expr], default: exp.Expr | None) -> ColumnValue:
        made = widen_to_common([self.evaluate_tree(e) for e in (*(i.args["true"] for i in ifs), default or exp.Null())])
        kind, last = made[-1].type, made[-1].data
        for when, then in zip(reversed(ifs), reversed(made[:-1]), strict=True):
            last = pc.if_else(_to_mask(self.evaluate_tree(when.this)), then.data, last)
        return ColumnValue(last, kind)

    def _evaluate_struct(self, fields: Sequence[exp.Expr]) -> ColumnValue:
        if not all(isinstance(field, exp.Column) and len(field.parts) == 1 for field in fields):
            raise ForSpark("a struct of what has no name")
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
        case exp.Literal() if found := decimals.parse_literal_type(infer_type(tree, {})):
            return pa.scalar(Decimal(tree.name), found)
    raise ForSpark(str(tree))


def _extract_field(struct: ColumnValue, name: str) -> ColumnValue:
    if not isinstance(struct.type, StructType) or name not in struct.type.names:
        raise ForSpark(f"no field {name}")
    return ColumnValue(pc.struct_field(struct.data, name), struct.type[name].dataType)


def _combine_chunks(data: pa.ChunkedArray | pa.Array) -> pa.Array:
    return data.combine_chunks() if isinstance(data, pa.ChunkedArray) else data


def cast_value(found: ColumnValue, wanted: exp.DataType) -> ColumnValue:
    if wanted.this is exp.DType.DECIMAL:
        kind = DecimalType(*(int(p.name) for p in wanted.expressions))
        if found.type != NullType():
            decimals.to_decimal_type(found.type)
        return found.cast_to(kind)
    return _cast_to_kind(found, _CASTS.get(wanted.this))


def _cast_to_kind(found: ColumnValue, kind: DataType | None) -> ColumnValue:
    if kind is None or found.type not in (kind, NullType(), *(WHOLE if kind in _NUMBERS else ())):
        raise ForSpark(f"a cast of {found.type.simpleString()}")
    return found.cast_to(kind)


def _parse_day(text: str) -> pa.Scalar:
    try:
        if _DAY.fullmatch(text):
            return pa.scalar(date.fromisoformat(text))
    except ValueError as error:
        raise ForSpark(text) from error
    raise ForSpark(text)


def _extract_year(found: ColumnValue) -> ColumnValue:
    if found.type != DateType():
        raise ForSpark(f"the year of {found.type.simpleString()}")
    return ColumnValue(pc.year(found.data).cast(pa.int32()), IntegerType())


def _to_text(found: ColumnValue) -> pa.ChunkedArray | pa.Array:
    if found.type != StringType():
        raise ForSpark(f"{found.type.simpleString()} is no text")
    return found.data


def _take_substring(found: ColumnValue, start: int, length: int) -> ColumnValue:
    """So many characters of a text from one on; the first has the number 1."""
    if not start:
        raise ForSpark("from the character before the first")
    return ColumnValue(pc.utf8_slice_codeunits(_to_text(found), start - 1, start - 1 + length), StringType())


def _to_mask(found: ColumnValue) -> pa.ChunkedArray | pa.Array:
    return pc.fill_null(_to_boolean(found), False)


def _to_boolean(found: ColumnValue) -> pa.ChunkedArray | pa.Array:
    if found.type not in (BooleanType(), NullType()):
        raise ForSpark(f"{found.type.simpleString()} is no condition")
    return found.cast_to(BooleanType()).data


def _apply_logic(function: Callable[..., Any], sides: Iterable[ColumnValue]) -> ColumnValue:
    return ColumnValue(function(*map(_to_boolean, sides)), BooleanType())


def _apply_arithmetic(
    function: Callable[..., Any], sides: Sequence[ColumnValue], types: Sequence[DataType] = _NUMBERS
) -> ColumnValue:
    """Arithmetic of numbers; what is too large for their type is Spark's to judge."""
    numbers = widen_to_common(sides)
    if numbers[0].type not in types:
        raise ForSpark(f"arithmetic of {numbers[0].type.simpleString()}")
    return ColumnValue(function(*(n.data for n in numbers)), numbers[0].type)


def _divide_numbers(sides: Sequence[ColumnValue]) -> ColumnValue:
    """Numbers are divided as doubles; by zero is Spark's to judge."""
    return _apply_arithmetic(pc.divide_checked, [_cast_to_kind(side, DoubleType()) for side in sides])


def _compute_remainder(a: pa.ChunkedArray | pa.Array, b: pa.ChunkedArray | pa.Array) -> pa.ChunkedArray | pa.Array:
    return pc.subtract_checked(a, pc.multiply_checked(pc.divide_checked(a, b), b))


def _compare_equality(function: Callable[..., Any], sides: Sequence[ColumnValue]) -> ColumnValue:
    return ColumnValue(function(*map(to_comparable, widen_to_common(sides))), BooleanType())


def _compare_order(function: Callable[..., Any], sides: Sequence[ColumnValue]) -> ColumnValue:
    return ColumnValue(function(*map(to_sortable, widen_to_common(sides))), BooleanType())


def _equal_null_safe(a: pa.ChunkedArray | pa.Array, b: pa.ChunkedArray | pa.Array) -> pa.ChunkedArray | pa.Array:
    return pc.or_(pc.fill_null(pc.equal(a, b), False), pc.and_(a.is_null(), b.is_null()))


def _to_decimal(tree: exp.Expr, found: ColumnValue) -> ColumnValue:
    """A side of decimal arithmetic. Of a whole number that is written out only its digits count."""
    match tree.unnest():
        case exp.Literal(is_int=True, name=number) | exp.Neg(this=exp.Literal(is_int=True, name=number)):
            return found.cast_to(DecimalType(len(str(int(number))), 0))
        case exp.Cast(this=exp.Literal()):
            raise ForSpark("a number that may have been written out as a long one")
    return found.cast_to(decimals.to_decimal_type(found.type))


def _apply_decimal(
    kind: Callable[[DecimalType, DecimalType], DecimalType],
    computed: Callable[..., Any],
    a: ColumnValue,
    b: ColumnValue,
) -> ColumnValue:
    result = kind(decimals.to_decimal_type(a.type), decimals.to_decimal_type(b.type))
    return ColumnValue(computed(a.data, b.data, result), result)


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
    exp.Mod: partial(_apply_arithmetic, _compute_remainder, types=WHOLE),
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
