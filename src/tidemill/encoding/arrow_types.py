"""Conversion of Spark SQL types to Arrow types."""

from collections.abc import Iterator

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
    match kind.this:
        case exp.DType.DECIMAL:
            return pa.decimal128(*parse_decimal_shape(kind))
        case exp.DType.ARRAY:
            return pa.list_(to_arrow_type(kind.expressions[0]))
        case exp.DType.MAP:
            return pa.map_(*map(to_arrow_type, kind.expressions))
        case exp.DType.STRUCT:
            return pa.struct([pa.field(f.name, to_arrow_type(f.data_type)) for f in list_struct_fields(kind)])
    return _SIMPLE[kind.this]


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
