"""Conversion of Spark SQL types to Arrow types."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
from sqlglot import exp

from tidemill.model.schema import Field, Schema

INSTANTS = frozenset({exp.DType.TIMESTAMP, exp.DType.TIMESTAMPTZ, exp.DType.TIMESTAMPLTZ})
"""The types that sqlglot gives to Spark's TIMESTAMP and TIMESTAMP_LTZ: points in time, not wall clocks."""

_SIMPLE = {
    exp.DType.BOOLEAN: pa.bool_(),
    exp.DType.TINYINT: pa.int8(),
    exp.DType.SMALLINT: pa.int16(),
    exp.DType.INT: pa.int32(),
    exp.DType.BIGINT: pa.int64(),
    exp.DType.FLOAT: pa.float32(),
    exp.DType.DOUBLE: pa.float64(),
    exp.DType.TEXT: pa.string(),
    exp.DType.BINARY: pa.binary(),
    exp.DType.DATE: pa.date32(),
    exp.DType.TIMESTAMPNTZ: pa.timestamp("us"),
    **{instant: pa.timestamp("us", "UTC") for instant in INSTANTS},
}


def to_arrow_type(kind: exp.DataType) -> pa.DataType:
    """The Arrow type of a Spark type.

    Fields of structs are nullable even where Spark's are not: Arrow mistakes the field of a NULL struct for a NULL in
    that field, and does not write it. `validate_ranges` checks NOT NULL inside structs.
    """
    build = _BUILDERS.get(kind.this)
    return build(kind) if build else _SIMPLE[kind.this]


def to_arrow_field(field: Field) -> pa.Field:
    return pa.field(field.name, to_arrow_type(field.data_type), nullable=field.nullable)


def to_arrow_schema(schema: Schema) -> pa.Schema:
    """The Arrow schema with all columns nullable: deltas have rows with only a key."""
    return pa.schema([pa.field(f.name, to_arrow_type(f.data_type)) for f in schema])


def is_nested(kind: exp.DataType) -> bool:
    return kind.this in (exp.DType.ARRAY, exp.DType.MAP, exp.DType.STRUCT)


def parse_decimal_shape(kind: exp.DataType) -> tuple[int, int]:
    """Precision and scale; Spark's defaults are 10 and 0."""
    parameters = [int(parameter.name) for parameter in kind.expressions]
    return (parameters[0] if parameters else 10, parameters[1] if len(parameters) > 1 else 0)


def list_struct_fields(kind: exp.DataType) -> Iterator[Field]:
    for column in kind.expressions:
        required = any(isinstance(c.kind, exp.NotNullColumnConstraint) for c in column.constraints)
        yield Field(column.name, column.args["kind"].sql("spark"), nullable=not required)


def _build_decimal(kind: exp.DataType) -> pa.DataType:
    return pa.decimal128(*parse_decimal_shape(kind))


def _build_array(kind: exp.DataType) -> pa.DataType:
    return pa.list_(to_arrow_type(kind.expressions[0]))


def _build_map(kind: exp.DataType) -> pa.DataType:
    key, value = kind.expressions
    return pa.map_(to_arrow_type(key), to_arrow_type(value))


def _build_struct(kind: exp.DataType) -> pa.DataType:
    return pa.struct([pa.field(f.name, to_arrow_type(f.data_type)) for f in list_struct_fields(kind)])


_BUILDERS: dict[exp.DType, Callable[[exp.DataType], pa.DataType]] = {
    exp.DType.DECIMAL: _build_decimal,
    exp.DType.ARRAY: _build_array,
    exp.DType.MAP: _build_map,
    exp.DType.STRUCT: _build_struct,
}
