"""DataFrames as block files, held to the channel's schema, NOT NULL columns and key."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidemill.errors import BadInput
from tidemill.model.change import COUNT, DELETED, RESERVED, Increment, Upsert
from tidemill.model.schema import Field, Schema
from tidemill.ports import Target
from tidemill.spark.types import column, columns, schema_of

_WIDENS = {
    "TINYINT": {"SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE"},
    "SMALLINT": {"INT", "BIGINT", "FLOAT", "DOUBLE"},
    "INT": {"BIGINT", "DOUBLE"},
    "FLOAT": {"DOUBLE"},
    "DATE": {"TIMESTAMP_NTZ"},
}
"""What fits without loss into what."""


def write(frame: DataFrame, target: Target) -> Schema:
    """Write a frame as the content (base) or a delta of the target; returns the schema of the content."""
    content = target.schema or _content_schema(frame, target)
    physical = target.physical(content)
    shaped = _shaped(frame, physical, target)
    shaped.write.mode("overwrite").parquet(fresh(target.directory))
    if isinstance(target.updates, Upsert | Increment):
        _check_key(shaped.sparkSession.read.schema(str(physical)).parquet(fresh(target.directory)), target)
    return content


def fresh(directory: str) -> str:
    """Spark wants to make the directory itself, so it gets one inside the run's."""
    return f"{directory}/data"


def kept_schema(target: Target) -> Schema:
    """The schema of a channel that a run leaves as it is."""
    assert target.schema is not None, f"nothing was ever written to {target.channel}, yet it has not changed"
    return target.schema


def _content_schema(frame: DataFrame, target: Target) -> Schema:
    schema = schema_of(frame)
    kept = [f for f in schema if f.name not in RESERVED]
    if not kept:
        raise _mismatch(target, "the result has no columns")
    return Schema(tuple(Field(f.name, f.type) for f in kept))


def _shaped(frame: DataFrame, physical: Schema, target: Target) -> DataFrame:
    """The frame's columns in the order and types of the block, with what a delta may leave out filled in."""
    have = schema_of(frame)
    optional = {COUNT: F.lit(1).cast("bigint"), DELETED: F.lit(None).cast("boolean")}
    stray = [f.name for f in have if f.name not in physical and f.name not in RESERVED]
    missing = [f.name for f in physical if f.name not in have and f.name not in optional]
    if stray or missing:
        raise _mismatch(target, f"the result {have.difference(physical.select(_content_names(physical)))}")
    return frame.select(
        *(_checked(f, have, target) if f.name in have else optional[f.name].alias(f.name) for f in physical)
    )


def _content_names(schema: Schema) -> list[str]:
    return [n for n in schema.names if n not in RESERVED]


def _checked(want: Field, schema: Schema, target: Target) -> Column:
    have, value = schema.field(want.name), column(want.name)
    if have.type != want.type:
        if not _fits(have.type, want.type):
            raise _mismatch(target, f"column {want.name} of the result is {have.type}, not {want.type}")
        value = value.cast(want.type)
    if not want.nullable and have.nullable:
        missing = column(want.name).isNull()
        if DELETED in schema and want.name not in target.updates.key:  # a deletion needs its key only
            missing &= ~F.coalesce(column(DELETED), F.lit(False))
        refuse = F.raise_error(F.lit(f"column {want.name} of channel {target.channel} is NOT NULL, but a row has NULL"))
        value = F.when(missing, refuse.cast(want.type)).otherwise(value)
    return value.alias(want.name)


def _fits(have: str, want: str) -> bool:
    return want in _WIDENS.get(have, ())


def _check_key(written: DataFrame, target: Target) -> None:
    key = list(target.updates.key)
    twice = written.groupBy(*columns(key)).count().filter("count > 1").limit(1).collect()
    if twice:
        shown = ", ".join(f"{k} = {twice[0][k]!r}" for k in key)
        raise BadInput(
            f"channel {target.channel}: its key is {', '.join(key)}, but the result has {twice[0]['count']} rows "
            f"with {shown}; make them one, e.g. with dropDuplicates"
        )


def _mismatch(target: Target, what: str) -> BadInput:
    want = ", ".join(f"{f.name} {f.type.lower()}" for f in target.schema or Schema(()))
    return BadInput(f"channel {target.channel} expects ({want}): {what}")
