"""Writing DataFrames as block files, checked against the channel's schema, NOT NULL columns and key."""

from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from tidemill.algebra.merge import Deltas, merge_deltas
from tidemill.algebra.operators import ORDER, StepReference
from tidemill.errors import BadInput
from tidemill.local.spark_types import to_nullable_ddl
from tidemill.model.block import BlockKind
from tidemill.model.change import COUNT, DELETED, RESERVED_COLUMNS, Increment, Upsert
from tidemill.model.error_summary import OWN_MESSAGE
from tidemill.model.evolution import can_widen
from tidemill.model.schema import Field, Schema
from tidemill.ports.engine import WriteTarget
from tidemill.spark.operators import OperatorCompiler
from tidemill.spark.types import (
    build_column,
    build_columns,
    cast_frame,
    create_empty_frame,
    drop_reserved,
    from_struct,
    to_content_schema,
)

_ROWS = "rows"


def write_frame(frame: DataFrame, target: WriteTarget) -> Schema:
    """Write a frame as the content (base) or a delta of the target; returns the schema of the content."""
    content = _choose_content_schema(frame, target)
    physical = target.to_physical_schema(content)
    shaped = _merge_delta(frame, content, target) if target.merges_into_empty else _shape_frame(frame, physical, target)
    save_frame(shaped, target)
    if isinstance(target.updates, Upsert | Increment):
        check_key(shaped.sparkSession, content, target)
    return content


def _merge_delta(frame: DataFrame, content: Schema, target: WriteTarget) -> DataFrame:
    """The content after applying a delta to an empty content."""
    delta = _shape_frame(frame, target.updates.build_delta_schema(content), target).withColumn(ORDER, F.lit(1))
    steps = {"empty": create_empty_frame(delta.sparkSession, to_nullable_ddl(content)), "delta": delta}
    empty, rows = (StepReference(name, tuple(steps[name].columns)) for name in steps)
    compiler = OperatorCompiler(delta.sparkSession, None, steps.__getitem__)
    return compiler.build_frame(merge_deltas(empty, Deltas(rows, target.updates, content, count=1), is_small=False))


def write_shaped_frame(frame: DataFrame, target: WriteTarget) -> Schema:
    """Write the rows of a declared query, which need no check; returns the schema of the content."""
    content = target.schema or to_content_schema(frame.schema)
    save_frame(cast_frame(frame, target.to_physical_schema(content)), target)
    return content


def save_frame(frame: DataFrame, target: WriteTarget) -> None:
    """Write a frame that already has the block's columns, and record its number of rows."""
    target.receipt.rows = save_and_count(frame, build_data_path(target.directory))


def save_and_count(frame: DataFrame, directory: str, **options: int) -> int:
    """Write a frame as Parquet files; returns the number of rows, counted by the executors that wrote them.

    Executors may write to a file system that this process does not see; publishing the files compares the numbers.
    """
    counted = Observation()
    rows = frame.observe(counted, F.count(F.lit(1)).alias(_ROWS))
    rows.write.mode("overwrite").options(**options).parquet(directory)
    return int(counted.get[_ROWS])


def build_data_path(directory: str) -> str:
    """The directory for Spark's files: Spark creates it itself, so it is inside the run's directory."""
    return f"{directory}/data"


def _choose_content_schema(frame: DataFrame, target: WriteTarget) -> Schema:
    """The schema of the content: as declared; else that of the frame, or the known one if it can hold the frame."""
    if target.schema is None:
        return _infer_content_schema(frame, target)
    if not target.is_schema_inferred:
        return target.schema
    inferred, known = _infer_content_schema(frame, target), target.schema
    if target.kind is BlockKind.BASE:
        return inferred
    types = {f.name: f.type for f in inferred}
    can_write = all(types.get(f.name) == f.type or can_widen(types.get(f.name, ""), f.type) for f in known)
    return known if can_write and types.keys() == set(known.names) else inferred


def _infer_content_schema(frame: DataFrame, target: WriteTarget) -> Schema:
    schema = drop_reserved(from_struct(frame.schema))
    if not schema.names:
        raise _build_mismatch(target, "the result has no columns")
    return schema


def _shape_frame(frame: DataFrame, physical: Schema, target: WriteTarget) -> DataFrame:
    """The frame's columns in the order and types of the block, with defaults for optional delta columns."""
    schema = from_struct(frame.schema)
    optional = {COUNT: F.lit(1).cast("bigint"), DELETED: F.lit(None).cast("boolean")}
    stray = [f.name for f in schema if f.name not in physical and f.name not in RESERVED_COLUMNS]
    missing = [f.name for f in physical if f.name not in schema and f.name not in optional]
    if stray or missing:
        content = physical.select_fields([n for n in physical.names if n not in RESERVED_COLUMNS])
        raise _build_mismatch(target, f"the result {schema.describe_difference(content)}")
    columns = (
        _build_checked_column(f, schema, target) if f.name in schema else optional[f.name].alias(f.name)
        for f in physical
    )
    return frame.select(*columns)


def _build_checked_column(expected: Field, schema: Schema, target: WriteTarget) -> Column:
    actual, value = schema.get_field(expected.name), build_column(expected.name)
    if actual.type != expected.type:
        if not can_widen(actual.type, expected.type):
            raise _build_mismatch(target, f"column {expected.name} of the result is {actual.type}, not {expected.type}")
        value = value.cast(expected.type)
    if not expected.nullable and actual.nullable:
        missing = build_column(expected.name).isNull()
        if DELETED in schema and expected.name not in target.updates.key:  # a deletion only needs its key
            missing &= ~F.coalesce(build_column(DELETED), F.lit(False))
        problem = f"{OWN_MESSAGE}column {expected.name} of channel {target.channel} is NOT NULL, but a row has NULL"
        value = F.when(missing, F.raise_error(F.lit(problem)).cast(expected.type)).otherwise(value)
    return value.alias(expected.name)


def check_key(spark: SparkSession, content: Schema, target: WriteTarget) -> None:
    """Check that the rows that were written differ in the key."""
    written = spark.read.schema(str(target.to_physical_schema(content))).parquet(build_data_path(target.directory))
    key = list(target.updates.key)
    duplicates = written.groupBy(*build_columns(key)).count().filter("count > 1").limit(1).collect()
    if duplicates:
        raise BadInput(
            f"channel {target.channel}: its key is {', '.join(key)}, but the result has {duplicates[0]['count']} rows "
            "that agree on it; make them one, e.g. with dropDuplicates"
        )


def _build_mismatch(target: WriteTarget, problem: str) -> BadInput:
    expected = ", ".join(f"{f.name} {f.type.lower()}" for f in target.schema or Schema(()))
    return BadInput(f"channel {target.channel} expects ({expected}): {problem}")
