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
from tidemill.algebra.typing import type_of
from tidemill.spark.local import decimals
from tidemill.spark.local.batches import Held

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


ForSpark = decimals.ForSpark


@dataclass(frozen=True, slots=True)
class Value:
    """What an expression is for each row."""

    data: pa.ChunkedArray | pa.Array
    type: DataType

    def to(self, kind: DataType) -> Value:
        """In a wider type."""
        if self.type == kind:
            return self
        if isinstance(kind, DecimalType) and self.type != NullType():
            return Value(decimals.cast(self.data, kind), kind)
        wanted = to_arrow_type(kind, timezone="UTC")
        return Value(pa.nulls(len(self.data), wanted) if self.type == NullType() else self.data.cast(wanted), kind)

    def at(self, rows: pa.ChunkedArray | pa.Array) -> Value:
        """Of the rows of these numbers; NULL of none."""
        return Value(self.data.take(rows), self.type)


def comparable(found: Value) -> pa.ChunkedArray | pa.Array:
    """What Arrow holds for equal exactly where Spark holds the values for equal.

    Of floats their bits, with -0.0 for 0.0 and one NaN for all of them. Not texts that are padded or collate.
    """
    bits = _BITS.get(type(found.type))
    if bits is not None:
        plain = pc.add(_whole_array(found.data), pa.scalar(0.0, found.data.type))
        return pc.if_else(pc.is_nan(plain), pa.scalar(math.nan, plain.type), plain).view(bits)
    if not isinstance(found.type, _EXACT) and found.type != StringType():
        raise ForSpark(f"equality of {found.type.simpleString()}")
    return found.data


def compared(data: pa.ChunkedArray | pa.Array, kind: DataType) -> Value:
    """The values of a type that were made comparable."""
    return Value(_whole_array(data).view(to_arrow_type(kind)) if type(kind) in _BITS else data, kind)


def ordered(found: Value) -> pa.ChunkedArray | pa.Array:
    """What Arrow orders as Spark orders the values. Of floats their bits, those of negative ones turned around."""
    codes = comparable(found)
    if type(found.type) not in _BITS:
        return codes
    turned = pc.bit_wise_xor(codes, pa.scalar(_ALL_BUT_THE_SIGN[codes.type], codes.type))
    return pc.if_else(pc.less(codes, pa.scalar(0, codes.type)), turned, codes)


def value(expression: Expression, rows: Held) -> Value:
    if "\\" in expression.text:
        raise ForSpark("what a backslash means")
    return _Terms(rows).of(parse_expression(expression.text))


def truth(expression: Expression, rows: Held) -> pa.ChunkedArray | pa.Array:
    """For each row whether the condition is true."""
    return _true(value(expression, rows))


def alike(values: Sequence[Value]) -> list[Value]:
    """The values in the one type that all of them have or widen to."""
    kinds = {v.type for v in values} - {NullType()}
    if len(kinds) < 2:
        kind = next(iter(kinds), NullType())
    elif kinds <= {*_NUMBERS}:
        kind = max(kinds, key=_NUMBERS.index)
    else:
        kind = decimals.wide_enough(kinds)
    return [v.to(kind) for v in values]


class _Terms:
    """The terms of an expression over some rows."""

    def __init__(self, rows: Held) -> None:
        self._rows = rows

    def of(self, tree: exp.Expr) -> Value:
        match tree:
            case exp.Paren():
                return self.of(tree.this)
            case exp.Column():
                return self._column(tree)
            case exp.Null() | exp.Boolean() | exp.Literal() | exp.Neg(this=exp.Literal()):
                return self._literal(tree)
            case exp.Cast(this=exp.Literal(is_string=True, name=day)) if tree.to.this is exp.DType.DATE:
                return self._same(_day(day), DateType())
            case exp.Cast():  # TRY_CAST is one, too
                return cast(self.of(tree.this), tree.to)
            case exp.Neg():
                return _arithmetic(pc.negate_checked, [self.of(tree.this)])
            case exp.Is(expression=exp.Null()):
                return Value(self.of(tree.this).data.is_null(), BooleanType())
            case exp.Between(args={"low": low, "high": high}) if not tree.args.get("symmetric"):
                sides = self.of(tree.this), self.of(low), self.of(high)
                return _logic(pc.and_kleene, [_order(pc.greater_equal, sides[:2]), _order(pc.less_equal, sides[::2])])
            case exp.In(expressions=[_, *_] as listed):
                agreeing = (_equality(pc.equal, [self.of(tree.this), self.of(e)]) for e in listed)
                return reduce(lambda any_of, one: _logic(pc.or_kleene, [any_of, one]), agreeing)
            case exp.Coalesce():
                values = alike([self.of(e) for e in (tree.this, *tree.expressions)])
                return Value(pc.coalesce(*(v.data for v in values)), values[0].type)
            case exp.If():
                return self._case([tree], tree.args.get("false"))
            case exp.Case(this=None):
                return self._case(tree.args["ifs"], tree.args.get("default"))
            case exp.Anonymous(name="STRUCT"):
                return self._struct(tree.expressions)
            case exp.Like(expression=exp.Literal(is_string=True, name=pattern)):
                found = pc.match_like(_text(self.of(tree.this)), pattern)
                return Value(pc.invert(found) if tree.args.get("negate") else found, BooleanType())
            case exp.Substring(args={"start": exp.Literal(is_int=True), "length": exp.Literal(is_int=True)}):
                return _part(self.of(tree.this), int(tree.args["start"].name), int(tree.args["length"].name))
            case exp.Extract(this=exp.Var(name="YEAR")):
                return _year(self.of(tree.expression))
            case exp.Add() | exp.Sub() | exp.Mul() | exp.Div() | exp.Mod():
                return self._arithmetic(tree)
        function = _FUNCTIONS.get(type(tree))
        if function is None:
            raise ForSpark(type(tree).__name__)
        return function([self.of(side) for side in tree.iter_expressions()])

    def _column(self, tree: exp.Column) -> Value:
        path = [part.name for part in tree.parts]
        if path[0] not in self._rows.struct.names:
            raise ForSpark(f"no column {path[0]}")
        found = Value(self._rows.table.column(path[0]), self._rows.struct[path[0]].dataType)
        return reduce(_field, path[1:], found)

    def _literal(self, tree: exp.Expr) -> Value:
        found = _constant(tree)
        return self._same(found, _KINDS.get(found.type) or DecimalType(found.type.precision, found.type.scale))

    def _same(self, found: pa.Scalar, kind: DataType) -> Value:
        """The same for every row."""
        return Value(pa.repeat(found, self._rows.table.num_rows), kind)

    def _arithmetic(self, tree: exp.Binary) -> Value:
        trees = tree.this, tree.expression
        sides = [self.of(side) for side in trees]
        if any(isinstance(side.type, DecimalType) for side in sides):
            return _OF_DECIMALS[type(tree)](*(_as_decimal(*side) for side in zip(trees, sides, strict=True)))
        return _OF_NUMBERS[type(tree)](sides)

    def _case(self, ifs: Sequence[exp.Expr], default: exp.Expr | None) -> Value:
        made = alike([self.of(e) for e in (*(i.args["true"] for i in ifs), default or exp.Null())])
        kind, last = made[-1].type, made[-1].data
        for when, then in zip(reversed(ifs), reversed(made[:-1]), strict=True):
            last = pc.if_else(_true(self.of(when.this)), then.data, last)
        return Value(last, kind)

    def _struct(self, fields: Sequence[exp.Expr]) -> Value:
        if not all(isinstance(field, exp.Column) and len(field.parts) == 1 for field in fields):
            raise ForSpark("a struct of what has no name")
        names = [field.name for field in fields]
        values = [self.of(field) for field in fields]
        data = pa.StructArray.from_arrays([_whole_array(v.data) for v in values], names)
        return Value(data, StructType([StructField(n, v.type) for n, v in zip(names, values, strict=True)]))


_KINDS: dict[pa.DataType, DataType] = {
    pa.null(): NullType(),
    pa.bool_(): BooleanType(),
    pa.string(): StringType(),
    pa.int32(): IntegerType(),
    pa.int64(): LongType(),
}


def _constant(tree: exp.Expr) -> pa.Scalar:
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
        case exp.Literal() if found := decimals.literal(type_of(tree, {})):
            return pa.scalar(Decimal(tree.name), found)
    raise ForSpark(str(tree))


def _field(struct: Value, name: str) -> Value:
    if not isinstance(struct.type, StructType) or name not in struct.type.names:
        raise ForSpark(f"no field {name}")
    return Value(pc.struct_field(struct.data, name), struct.type[name].dataType)


def _whole_array(data: pa.ChunkedArray | pa.Array) -> pa.Array:
    return data.combine_chunks() if isinstance(data, pa.ChunkedArray) else data


def cast(found: Value, wanted: exp.DataType) -> Value:
    if wanted.this is exp.DType.DECIMAL:
        kind = DecimalType(*(int(p.name) for p in wanted.expressions))
        if found.type != NullType():
            decimals.decimal_of(found.type)
        return found.to(kind)
    return _cast(found, _CASTS.get(wanted.this))


def _cast(found: Value, kind: DataType | None) -> Value:
    if kind is None or found.type not in (kind, NullType(), *(WHOLE if kind in _NUMBERS else ())):
        raise ForSpark(f"a cast of {found.type.simpleString()}")
    return found.to(kind)


def _day(text: str) -> pa.Scalar:
    try:
        if _DAY.fullmatch(text):
            return pa.scalar(date.fromisoformat(text))
    except ValueError as error:
        raise ForSpark(text) from error
    raise ForSpark(text)


def _year(found: Value) -> Value:
    if found.type != DateType():
        raise ForSpark(f"the year of {found.type.simpleString()}")
    return Value(pc.year(found.data).cast(pa.int32()), IntegerType())


def _text(found: Value) -> pa.ChunkedArray | pa.Array:
    if found.type != StringType():
        raise ForSpark(f"{found.type.simpleString()} is no text")
    return found.data


def _part(found: Value, start: int, length: int) -> Value:
    """So many characters of a text from one on; the first has the number 1."""
    if not start:
        raise ForSpark("from the character before the first")
    return Value(pc.utf8_slice_codeunits(_text(found), start - 1, start - 1 + length), StringType())


def _true(found: Value) -> pa.ChunkedArray | pa.Array:
    return pc.fill_null(_logical(found), False)


def _logical(found: Value) -> pa.ChunkedArray | pa.Array:
    if found.type not in (BooleanType(), NullType()):
        raise ForSpark(f"{found.type.simpleString()} is no condition")
    return found.to(BooleanType()).data


def _logic(function: Callable[..., Any], sides: Iterable[Value]) -> Value:
    return Value(function(*map(_logical, sides)), BooleanType())


def _arithmetic(function: Callable[..., Any], sides: Sequence[Value], types: Sequence[DataType] = _NUMBERS) -> Value:
    """Arithmetic of numbers; what is too large for their type is Spark's to judge."""
    numbers = alike(sides)
    if numbers[0].type not in types:
        raise ForSpark(f"arithmetic of {numbers[0].type.simpleString()}")
    return Value(function(*(n.data for n in numbers)), numbers[0].type)


def _quotient(sides: Sequence[Value]) -> Value:
    """Numbers are divided as doubles; by zero is Spark's to judge."""
    return _arithmetic(pc.divide_checked, [_cast(side, DoubleType()) for side in sides])


def _remainder(a: pa.ChunkedArray | pa.Array, b: pa.ChunkedArray | pa.Array) -> pa.ChunkedArray | pa.Array:
    return pc.subtract_checked(a, pc.multiply_checked(pc.divide_checked(a, b), b))


def _equality(function: Callable[..., Any], sides: Sequence[Value]) -> Value:
    return Value(function(*map(comparable, alike(sides))), BooleanType())


def _order(function: Callable[..., Any], sides: Sequence[Value]) -> Value:
    return Value(function(*map(ordered, alike(sides))), BooleanType())


def _same(a: pa.ChunkedArray | pa.Array, b: pa.ChunkedArray | pa.Array) -> pa.ChunkedArray | pa.Array:
    return pc.or_(pc.fill_null(pc.equal(a, b), False), pc.and_(a.is_null(), b.is_null()))


def _as_decimal(tree: exp.Expr, found: Value) -> Value:
    """A side of decimal arithmetic. Of a whole number that is written out only its digits count."""
    match tree.unnest():
        case exp.Literal(is_int=True, name=number) | exp.Neg(this=exp.Literal(is_int=True, name=number)):
            return found.to(DecimalType(len(str(int(number))), 0))
        case exp.Cast(this=exp.Literal()):
            raise ForSpark("a number that may have been written out as a long one")
    return found.to(decimals.decimal_of(found.type))


def _of_decimals(
    kind: Callable[[DecimalType, DecimalType], DecimalType], computed: Callable[..., Any], a: Value, b: Value
) -> Value:
    result = kind(decimals.decimal_of(a.type), decimals.decimal_of(b.type))
    return Value(computed(a.data, b.data, result), result)


_OF_DECIMALS: dict[type[exp.Expr], Callable[[Value, Value], Value]] = {
    exp.Add: partial(_of_decimals, decimals.plus, partial(decimals.computed, pc.add)),
    exp.Sub: partial(_of_decimals, decimals.plus, partial(decimals.computed, pc.subtract)),
    exp.Mul: partial(_of_decimals, decimals.times, partial(decimals.computed, pc.multiply)),
    exp.Div: partial(_of_decimals, decimals.by, decimals.divided),
    exp.Mod: partial(_of_decimals, decimals.left_over, decimals.remainder),
}
_OF_NUMBERS: dict[type[exp.Expr], Callable[[Sequence[Value]], Value]] = {
    exp.Add: partial(_arithmetic, pc.add_checked),
    exp.Sub: partial(_arithmetic, pc.subtract_checked),
    exp.Mul: partial(_arithmetic, pc.multiply_checked),
    exp.Div: _quotient,
    exp.Mod: partial(_arithmetic, _remainder, types=WHOLE),
}
_FUNCTIONS: dict[type[exp.Expr], Callable[[Sequence[Value]], Value]] = {
    exp.And: partial(_logic, pc.and_kleene),
    exp.Or: partial(_logic, pc.or_kleene),
    exp.Not: partial(_logic, pc.invert),
    exp.EQ: partial(_equality, pc.equal),
    exp.NEQ: partial(_equality, pc.not_equal),
    exp.NullSafeEQ: partial(_equality, _same),
    exp.GT: partial(_order, pc.greater),
    exp.GTE: partial(_order, pc.greater_equal),
    exp.LT: partial(_order, pc.less),
    exp.LTE: partial(_order, pc.less_equal),
}
