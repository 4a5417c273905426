"""DataFrames as block files, held to the channel's schema, NOT NULL columns and key."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F

from tidemill.errors import BadInput
from tidemill.model.block import Kind
from tidemill.model.change import COUNT, DELETED, RESERVED, Increment, Upsert
from tidemill.model.evolution import unreadable, widens
from tidemill.model.schema import Field, Schema
from tidemill.ports.engine import Target
from tidemill.spark.merge import ORDER, Deltas, merge
from tidemill.spark.types import column, columns, loose, schema_of

_ROWS = "rows"


def write(frame: DataFrame, target: Target) -> Schema:
    """Write a frame as the content (base) or a delta of the target; returns the schema of the content."""
    content = _content(frame, target)
    physical = target.physical(content)
    shaped = _merged(frame, content, target) if target.merged else _shaped(frame, physical, target)
    save(shaped, target)
    if isinstance(target.updates, Upsert | Increment):
        _check_key(shaped.sparkSession.read.schema(str(physical)).parquet(fresh(target.directory)), target)
    return content


def _merged(frame: DataFrame, content: Schema, target: Target) -> DataFrame:
    """What a delta makes of nothing."""
    rows = _shaped(frame, target.updates.delta_schema(content), target)
    nothing = rows.sparkSession.createDataFrame([], loose(content))
    return merge(target.updates, nothing, Deltas(rows.withColumn(ORDER, F.lit(1)), 1), little=False)


def save(frame: DataFrame, target: Target) -> None:
    """Write a frame that has the block's columns already, and say how many rows it had."""
    target.receipt.rows = save_counted(frame, fresh(target.directory))


def save_counted(frame: DataFrame, directory: str, **options: int) -> int:
    """Write a frame as Parquet files; returns the rows that went into them, counted where they were written.

    Executors may write where this process does not look. Who publishes the files compares.
    """
    counted = Observation()
    rows = frame.observe(counted, F.count(F.lit(1)).alias(_ROWS))
    rows.write.mode("overwrite").options(**options).parquet(directory)
    return int(counted.get[_ROWS])


def fresh(directory: str) -> str:
    """Spark wants to make the directory itself, so it gets one inside the run's."""
    return f"{directory}/data"


def kept_schema(target: Target) -> Schema:
    """The schema of a channel that a run leaves as it is."""
    assert target.schema is not None, f"nothing was ever written to {target.channel}, yet it has not changed"
    return target.schema


def _content(frame: DataFrame, target: Target) -> Schema:
    """The schema of the content: as declared; else what is written decides, as long as older blocks can be read."""
    if target.schema is None:
        return _content_schema(frame, target)
    if not target.learnt:
        return target.schema
    found, known = _content_schema(frame, target), target.schema
    if target.kind is Kind.BASE or not _fits(found, known):
        problems = [] if target.kind is Kind.BASE else list(unreadable(known, found, target.updates.key))
        if problems:
            raise BadInput(
                f"channel {target.channel} holds rows of an earlier result, which cannot change "
                f"{' and '.join(problems)}; compute it from scratch: tidemill run FLOW --variant batch"
            )
        return found
    return known


def _fits(found: Schema, known: Schema) -> bool:
    """Can rows be written in the columns that are known?"""
    types = {f.name: f.type for f in found}
    return types.keys() == set(known.names) and all(
        types[f.name] == f.type or widens(types[f.name], f.type) for f in known
    )


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
        if not widens(have.type, want.type):
            raise _mismatch(target, f"column {want.name} of the result is {have.type}, not {want.type}")
        value = value.cast(want.type)
    if not want.nullable and have.nullable:
        missing = column(want.name).isNull()
        if DELETED in schema and want.name not in target.updates.key:  # a deletion needs its key only
            missing &= ~F.coalesce(column(DELETED), F.lit(False))
        refuse = F.raise_error(F.lit(f"column {want.name} of channel {target.channel} is NOT NULL, but a row has NULL"))
        value = F.when(missing, refuse.cast(want.type)).otherwise(value)
    return value.alias(want.name)


def _check_key(written: DataFrame, target: Target) -> None:
    key = list(target.updates.key)
    twice = written.groupBy(*columns(key)).count().filter("count > 1").limit(1).collect()
    if twice:
        raise BadInput(
            f"channel {target.channel}: its key is {', '.join(key)}, but the result has {twice[0]['count']} rows "
            "that agree on it; make them one, e.g. with dropDuplicates"
        )


def _mismatch(target: Target, what: str) -> BadInput:
    want = ", ".join(f"{f.name} {f.type.lower()}" for f in target.schema or Schema(()))
    return BadInput(f"channel {target.channel} expects ({want}): {what}")
