"""Schemas between the model and Spark."""

from __future__ import annotations

import re

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from tidemill.errors import BadInput
from tidemill.model.schema import Field, Schema

_VOID = re.compile(r"\bvoid(?=$|[,>])")
"""The type of a bare NULL, in a type as Spark spells it; the name of a field has a colon behind it."""


def schema_of(frame: DataFrame) -> Schema:
    """The schema of a frame, as the model spells it."""
    return from_struct(frame.schema)


def from_struct(struct: StructType) -> Schema:
    untyped = [f.name for f in struct.fields if _VOID.search(_type_of(f.dataType))]
    if untyped:
        raise BadInput(
            f"column {untyped[0]} is NULL without a type; give it one, such as CAST(NULL AS STRING) AS {untyped[0]}"
        )
    ddl = ", ".join(f"{quoted(f.name)} {_type_of(f.dataType)}" for f in struct.fields)
    parsed = Schema.parse(ddl)
    return Schema(tuple(Field(f.name, f.type, s.nullable) for f, s in zip(parsed, struct.fields, strict=True)))


def content_schema(struct: StructType) -> Schema:
    """The schema of a content with these columns: any of them may be NULL some day."""
    return Schema(tuple(Field(f.name, f.type) for f in from_struct(struct)))


def _type_of(data_type: object) -> str:
    text: str = data_type.simpleString()  # type: ignore[attr-defined]
    return text


def loose(schema: Schema) -> str:
    """The DDL without NOT NULL: a frame that claims to hold no NULL would let Spark drop the checks on it."""
    return str(Schema(tuple(Field(f.name, f.type) for f in schema)))


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def column(name: str) -> Column:
    """The column of that very name, dots and blanks included."""
    return F.col(quoted(name))


def columns(names: tuple[str, ...] | list[str]) -> list[Column]:
    return [column(n) for n in names]


def adapt(frame: DataFrame, have: Schema, want: Schema) -> DataFrame:
    """The frame in the columns of `want`: those it lacks are NULL, those that widened are cast."""
    if have.same_shape(want):
        return frame
    types = {f.name: f.type for f in have}
    return frame.select(
        *(
            (column(f.name) if types[f.name] == f.type else column(f.name).cast(f.type)).alias(f.name)
            if f.name in types
            else F.lit(None).cast(f.type).alias(f.name)
            for f in want
        )
    )
