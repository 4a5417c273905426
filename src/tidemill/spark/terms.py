"""Expressions on Arrow columns, with the meaning that Spark gives them.

Those that derivation writes, and the plainest of users' conditions: names, literals, comparisons, logic, sums of whole
numbers. All else is for Spark to compute, and so is whatever might fail, which it does in its own words.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
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
from tidemill.spark.local import Held

WHOLE = (IntegerType(), LongType())
"""The types of numbers that are computed here."""

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


class ForSpark(Exception):
    """This is for Spark to compute."""


@dataclass(frozen=True, slots=True)
class Value:
    """What an expression is for each row."""

    data: pa.ChunkedArray | pa.Array
    type: DataType

    def to(self, kind: DataType) -> Value:
        """In a wider type."""
        if self.type == kind:
            return self
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
    if len(kinds) > 1 and not kinds <= {*WHOLE}:
        raise ForSpark(f"several types: {sorted(k.simpleString() for k in kinds)}")
    kind = LongType() if len(kinds) > 1 else next(iter(kinds), NullType())
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
            case exp.Cast():  # TRY_CAST is one, too
                return self._cast(self.of(tree.this), tree.to.this)
            case exp.Neg():
                return _whole(pc.negate_checked, [self.of(tree.this)])
            case exp.Is(expression=exp.Null()):
                return Value(self.of(tree.this).data.is_null(), BooleanType())
            case exp.Coalesce():
                values = alike([self.of(e) for e in (tree.this, *tree.expressions)])
                return Value(pc.coalesce(*(v.data for v in values)), values[0].type)
            case exp.If():
                return self._case([tree], tree.args.get("false"))
            case exp.Case(this=None):
                return self._case(tree.args["ifs"], tree.args.get("default"))
            case exp.Anonymous(name="STRUCT"):
                return self._struct(tree.expressions)
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
        return Value(pa.repeat(found, self._rows.table.num_rows), _KINDS[found.type])

    def _cast(self, found: Value, wanted: exp.DType) -> Value:
        kind = _CASTS.get(wanted)
        if kind is None or found.type not in (kind, NullType(), *(WHOLE if kind == LongType() else ())):
            raise ForSpark(f"{found.type.simpleString()} as {wanted}")
        return found.to(kind)

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
    raise ForSpark(str(tree))


def _field(struct: Value, name: str) -> Value:
    if not isinstance(struct.type, StructType) or name not in struct.type.names:
        raise ForSpark(f"no field {name}")
    return Value(pc.struct_field(struct.data, name), struct.type[name].dataType)


def _whole_array(data: pa.ChunkedArray | pa.Array) -> pa.Array:
    return data.combine_chunks() if isinstance(data, pa.ChunkedArray) else data


def _true(found: Value) -> pa.ChunkedArray | pa.Array:
    return pc.fill_null(_logical(found), False)


def _logical(found: Value) -> pa.ChunkedArray | pa.Array:
    if found.type not in (BooleanType(), NullType()):
        raise ForSpark(f"{found.type.simpleString()} is no condition")
    return found.to(BooleanType()).data


def _logic(function: Callable[..., Any], sides: Iterable[Value]) -> Value:
    return Value(function(*map(_logical, sides)), BooleanType())


def _whole(function: Callable[..., Any], sides: Sequence[Value]) -> Value:
    """Arithmetic of whole numbers; what is too large for their type is Spark's to judge."""
    numbers = alike(sides)
    if numbers[0].type not in WHOLE:
        raise ForSpark(f"arithmetic of {numbers[0].type.simpleString()}")
    return Value(function(*(n.data for n in numbers)), numbers[0].type)


def _equality(function: Callable[..., Any], sides: Sequence[Value]) -> Value:
    return Value(function(*map(comparable, alike(sides))), BooleanType())


def _order(function: Callable[..., Any], sides: Sequence[Value]) -> Value:
    found = alike(sides)
    if found[0].type not in WHOLE:
        raise ForSpark(f"order of {found[0].type.simpleString()}")
    return Value(function(*(f.data for f in found)), BooleanType())


def _same(a: pa.ChunkedArray | pa.Array, b: pa.ChunkedArray | pa.Array) -> pa.ChunkedArray | pa.Array:
    return pc.or_(pc.fill_null(pc.equal(a, b), False), pc.and_(a.is_null(), b.is_null()))


_FUNCTIONS: dict[type[exp.Expr], Callable[[Sequence[Value]], Value]] = {
    exp.And: partial(_logic, pc.and_kleene),
    exp.Or: partial(_logic, pc.or_kleene),
    exp.Not: partial(_logic, pc.invert),
    exp.Add: partial(_whole, pc.add_checked),
    exp.Sub: partial(_whole, pc.subtract_checked),
    exp.Mul: partial(_whole, pc.multiply_checked),
    exp.EQ: partial(_equality, pc.equal),
    exp.NEQ: partial(_equality, pc.not_equal),
    exp.NullSafeEQ: partial(_equality, _same),
    exp.GT: partial(_order, pc.greater),
    exp.GTE: partial(_order, pc.greater_equal),
    exp.LT: partial(_order, pc.less),
    exp.LTE: partial(_order, pc.less_equal),
}
