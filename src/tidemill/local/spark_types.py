"""Spark's types of columns, and those whose values are the same in Arrow."""

from functools import lru_cache

from pyspark.sql import types as T

from tidemill.model.schema import Field, Schema


def to_nullable_ddl(schema: Schema) -> str:
    """The DDL without NOT NULL: for a frame that claims to hold no NULL, Spark would remove the checks."""
    return str(Schema(tuple(Field(f.name, f.type) for f in schema)))


@lru_cache(maxsize=1024)
def parse_ddl(ddl: str) -> T.StructType:
    struct = T.StructType.fromDDL(ddl)
    assert isinstance(struct, T.StructType)
    return struct


_PLAIN = (
    *(
        T.BooleanType,
        T.ByteType,
        T.ShortType,
        T.IntegerType,
        T.LongType,
        T.FloatType,
        T.DoubleType,
        T.DecimalType,
        T.StringType,
    ),
    *(T.BinaryType, T.DateType, T.TimestampType, T.TimestampNTZType, T.NullType, T.ArrayType, T.MapType, T.StructType),
)


def is_plain_type(kind: T.DataType) -> bool:
    """Whether values of this type are the same in Arrow and in Spark, unlike intervals and strings with a collation."""
    if not isinstance(kind, _PLAIN) or isinstance(kind, T.CharType | T.VarcharType):
        return False
    match kind:
        case T.StringType():
            return kind.isUTF8BinaryCollation()
        case T.ArrayType():
            return is_plain_type(kind.elementType)
        case T.MapType():
            return is_plain_type(kind.keyType) and is_plain_type(kind.valueType)
        case T.StructType():
            return all(is_plain_type(field.dataType) for field in kind.fields)
    return True
