"""Queries and functions asked for their columns: analysed by Spark over empty tables, without running anything."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Mapping, Sequence

import pyarrow as pa
from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import DataFrame, SparkSession

from tidemill.algebra.operators import Operator, Scan, Union, walk
from tidemill.algebra.program import Query
from tidemill.errors import BadInput
from tidemill.model.analysis import Analysis, QueryRefused, QueryToAnalyse, Schemas
from tidemill.model.change import RESERVED, Signed, Updates
from tidemill.model.schema import Field, Schema
from tidemill.model.task import Function, Task
from tidemill.spark.local.batches import Held
from tidemill.spark.merge import Keys
from tidemill.spark.operators import Compiler
from tidemill.spark.query_sessions import named_tables
from tidemill.spark.session import first_line
from tidemill.spark.types import content_schema, from_struct, is_plain_type, loose, schema_of


def analyse(spark: SparkSession, query: QueryToAnalyse) -> Analysis:
    """The columns of a query's result, and why its operators would not do; raises `QueryRefused`."""
    frames = {name: _empty(spark, schema) for name, schema in query.tables.items()}
    try:
        with named_tables(spark, frames):
            result = spark.sql(query.text)
            schema = content_schema(result.schema)
    except (AnalysisException, ParseException) as error:
        raise QueryRefused(_place_and_message(error)) from error
    except (BadInput, ValueError) as error:  # columns that no channel can have
        raise QueryRefused(str(error)) from error
    if query.operators is None:
        return Analysis(schema)
    channels = {query.channels[name]: frame for name, frame in frames.items()}
    return Analysis(schema, _find_obstacle(spark, query.operators, result, channels))


def infer_outputs(spark: SparkSession, task: Task, inputs: Schemas) -> dict[str, Schema] | None:
    """The columns that a function returns of empty frames; None if it fails of them, or returns something else."""
    code = task.variant.code
    assert isinstance(code, Function)
    frames = {argument: _empty(spark, schema) for argument, schema in inputs.items()}
    outputs = [write.argument for write in task.writes]
    with contextlib.suppress(Exception), contextlib.redirect_stdout(io.StringIO()):  # a user's code may raise anything
        result = code.call(**frames, **task.parameters)
        results = result if isinstance(result, Mapping) else dict.fromkeys(outputs[:1], result)
        return {name: _content(results[name]) for name in outputs}
    return None


def _content(frame: DataFrame) -> Schema:
    return Schema(tuple(Field(f.name, f.type) for f in schema_of(frame) if f.name not in RESERVED))


def _empty(spark: SparkSession, schema: Schema) -> DataFrame:
    return spark.createDataFrame([], loose(schema))


def _place_and_message(error: PySparkException) -> str:
    """What Spark says, with the line and position that it names."""
    text = first_line(error)
    places = [c.summary().splitlines()[0].strip("= ") for c in error.getQueryContext() if "line" in c.summary()]
    message = str(error)
    if "(line " in message and "(line " not in text:
        places.append(message[message.index("(line ") :].partition(")")[0].strip("("))
    return text if not places or "line " in text else f"{text} ({places[0].removeprefix('SQL ').strip('()')})"


def _find_obstacle(
    spark: SparkSession, root: Operator, result: DataFrame, channels: Mapping[str, DataFrame]
) -> str | None:
    """Why the operators would not give what the query gives, or not in a form that can be kept; None if they do."""
    compiler = Compiler(spark, _EmptyScans(channels), steps={})
    try:
        made = compiler.frame(root).schema
        for union in (op for op in walk(root) if isinstance(op, Union)):
            kinds = {tuple(f.dataType.simpleString() for f in compiler.frame(c).schema) for c in union.children}
            if len(kinds) > 1:
                return "the sides of a set operation differ in their types"
        kept = [(updates, compiler.frame(step).schema) for updates, step in _kept_tables(root)]
    except PySparkException as error:
        return f"Spark does not accept its operators ({error.getCondition()})"
    finally:
        compiler.close()
    for mine, theirs in zip(made.fields, result.schema.fields, strict=False):
        if mine.dataType != theirs.dataType:
            kinds_text = f"{theirs.dataType.simpleString()} in batch and {mine.dataType.simpleString()} incrementally"
            return f"column {theirs.name} would be {kinds_text}"
    for updates, struct in kept:
        for field in struct.fields:
            if not is_plain_type(field.dataType):
                return f"values of type {field.dataType.simpleString()} are only known in batch"
        if isinstance(updates, Signed) and (found := next((f for f in from_struct(struct) if not f.groupable), None)):
            return f"column {found.name} holds a map, and Spark cannot compare maps"
    return None


def _kept_tables(root: Operator) -> list[tuple[Updates, Operator]]:
    """How the result and the states are changed, and what they hold."""
    query = Query("analysed", root)
    states = [(state.updates, state.of(op.child)) for op, state in query.states().items()]  # type: ignore[union-attr]
    return [(query.updates, root), *states]


class _EmptyScans:
    """Scans of tables without rows."""

    def __init__(self, channels: Mapping[str, DataFrame]) -> None:
        self._channels = channels

    def __call__(self, scan: Scan, only: Keys | None = None) -> DataFrame:
        return self._channels[scan.channel]

    def at_hand(self, scan: Scan) -> bool:
        return False

    def here(self, scan: Scan) -> Held | None:
        return None

    def found(self, scan: Scan, keys: pa.Table, on: Sequence[tuple[str, str]]) -> Held | None:
        return None
