"""Conversion of schemas between the model and Spark."""

import re

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tidemill.algebra.expression import quote_name
from tidemill.errors import BadInput
from tidemill.local.spark_types import is_plain_type
from tidemill.model.change import RESERVED_COLUMNS
from tidemill.model.schema import Field, Schema

_WORD = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_VOID = re.compile(r"\bvoid(?=$|[,>])")
"""The type of a bare NULL in Spark's notation; a field's name is followed by a colon."""


def from_struct(struct: T.StructType) -> Schema:
    untyped = [f.name for f in struct.fields if _VOID.search(format_type(f.dataType))]
    if untyped:
        hint = f"give it one, such as CAST(NULL AS STRING) AS {untyped[0]}"
        raise BadInput(f"column {untyped[0]} is NULL without a type; {hint}")
    names = [f.name.lower() for f in struct.fields]
    repeated = next((f.name for f in struct.fields if names.count(f.name.lower()) > 1), None)
    if repeated is not None:
        raise BadInput(f"two columns of the result are called {repeated}; give each a distinct name with AS")
    ddl = ", ".join(f"{quote_name(f.name)} {format_type(f.dataType)}" for f in struct.fields)
    parsed = Schema.from_ddl(ddl)
    return Schema(tuple(Field(f.name, f.type, s.nullable) for f, s in zip(parsed, struct.fields, strict=True)))


def to_content_schema(struct: T.StructType) -> Schema:
    """The schema of a content with these columns: all of them are nullable."""
    return Schema(tuple(Field(f.name, f.type) for f in from_struct(struct)))


def drop_reserved(schema: Schema) -> Schema:
    """The columns of a content, all nullable, without those that only deltas have."""
    return Schema(tuple(Field(f.name, f.type) for f in schema if f.name not in RESERVED_COLUMNS))


def format_type(kind: T.DataType) -> str:
    """The type in Spark's notation, in a form that Spark can parse: field names that are no plain words are quoted.

    >>> format_type(T.ArrayType(T.StructType().add("a", "integer").add("1st one", "integer")))
    'array<struct<a:int,`1st one`:int>>'
    """
    match kind:
        case T.StructType():
            names = (f.name if _WORD.fullmatch(f.name) else quote_name(f.name) for f in kind.fields)
            fields = (f"{n}:{format_type(f.dataType)}" for n, f in zip(names, kind.fields, strict=True))
            return f"struct<{','.join(fields)}>"
        case T.ArrayType():
            return f"array<{format_type(kind.elementType)}>"
        case T.MapType():
            return f"map<{format_type(kind.keyType)},{format_type(kind.valueType)}>"
    return str(kind.simpleString())


def build_column(name: str) -> Column:
    """The column of exactly this name, including dots and blanks."""
    return F.col(quote_name(name))


def build_columns(names: tuple[str, ...] | list[str]) -> list[Column]:
    return [build_column(n) for n in names]


def stringify_unsupported(frame: DataFrame) -> DataFrame:
    """The frame with values that Arrow has no type for, such as intervals, as text."""
    if is_plain_type(frame.schema):
        return frame
    texts = {f.name: build_column(f.name).cast("string") for f in frame.schema if not is_plain_type(f.dataType)}
    return frame.withColumns(texts)


def create_empty_frame(spark: SparkSession, schema: T.StructType | str) -> DataFrame:
    """A frame without rows, from which Spark's optimizer removes joins and unions.

    Without the limit it would be an RDD of unknown size, which Spark reads with Python processes.
    """
    return spark.createDataFrame([], schema).limit(0)


def adapt_frame(frame: DataFrame, stored: Schema, target: Schema) -> DataFrame:
    """The frame in the columns of `target`: missing columns are NULL, widened columns are cast."""
    if stored.has_same_shape(target):
        return frame
    types, columns = {f.name: f.type for f in stored}, []
    for field in target:
        value = build_column(field.name) if field.name in types else F.lit(None)
        columns.append((value if types.get(field.name) == field.type else value.cast(field.type)).alias(field.name))
    return frame.select(*columns)


def cast_frame(frame: DataFrame, target: Schema) -> DataFrame:
    return frame.select(*(build_column(f.name).cast(f.type).alias(f.name) for f in target))
