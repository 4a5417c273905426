"""Spark's types of columns, and those whose values are the same in Arrow."""

from __future__ import annotations

from functools import lru_cache

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    CharType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
    VarcharType,
)

from tidemill.model.schema import Field, Schema


def to_nullable_ddl(schema: Schema) -> str:
    """The DDL without NOT NULL: for a frame that claims to hold no NULL, Spark would remove the checks."""
    return str(Schema(tuple(Field(f.name, f.type) for f in schema)))


@lru_cache(maxsize=1024)
def parse_ddl(ddl: str) -> StructType:
    struct = StructType.fromDDL(ddl)
    assert isinstance(struct, StructType)
    return struct


_PLAIN = (
    *(BooleanType, ByteType, ShortType, IntegerType, LongType, FloatType, DoubleType, DecimalType, StringType),
    *(BinaryType, DateType, TimestampType, TimestampNTZType, NullType, ArrayType, MapType, StructType),
)


def is_plain_type(kind: DataType) -> bool:
    """Whether values of this type are the same in Arrow and in Spark, unlike intervals and strings with a collation."""
    if not isinstance(kind, _PLAIN) or isinstance(kind, CharType | VarcharType):
        return False
    match kind:
        case StringType():
            return kind.isUTF8BinaryCollation()
        case ArrayType():
            return is_plain_type(kind.elementType)
        case MapType():
            return is_plain_type(kind.keyType) and is_plain_type(kind.valueType)
        case StructType():
            return all(is_plain_type(field.dataType) for field in kind.fields)
    return True
