"""Analysis of queries and functions: Spark determines their columns over empty tables, without running them."""

import contextlib
import io
from collections.abc import Callable, Mapping

from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import DataFrame, SparkSession

from tidemill.algebra.operators import BlockScan, Operator, Scan, Union, walk_operators
from tidemill.algebra.program import DeclaredQuery
from tidemill.errors import BadInput
from tidemill.local.spark_types import is_plain_type, to_nullable_ddl
from tidemill.model.analysis import Analysis, AnalysisRequest, QueryRefused, Schemas
from tidemill.model.change import Signed, Updates
from tidemill.model.schema import Schema
from tidemill.model.task import Function, Task
from tidemill.spark.operators import OperatorCompiler
from tidemill.spark.query_sessions import register_tables
from tidemill.spark.session import extract_first_line
from tidemill.spark.types import create_empty_frame, drop_reserved, from_struct, to_content_schema

IsLost = Callable[[BaseException], bool]
"""Whether an error shows that the session was lost; such an error is raised, since it says nothing about a query."""


def analyse_query(spark: SparkSession, query: AnalysisRequest, is_lost: IsLost) -> Analysis:
    """The columns of a query's result, and why its operators cannot be used; raises `QueryRefused`."""
    frames = {name: create_empty_frame(spark, to_nullable_ddl(schema)) for name, schema in query.tables.items()}
    try:
        with register_tables(spark, frames):
            result = spark.sql(query.text)
            schema = to_content_schema(result.schema)
    except (AnalysisException, ParseException) as error:
        raise QueryRefused(_format_error(error)) from error
    except (BadInput, ValueError) as error:  # columns that no channel can have
        raise QueryRefused(str(error)) from error
    if query.operators is None:
        return Analysis(schema)
    channels = {query.channels[name]: frame for name, frame in frames.items()}
    return Analysis(schema, _find_obstacle(spark, query.operators, result, channels, is_lost))


def infer_outputs(spark: SparkSession, task: Task, inputs: Schemas, is_lost: IsLost) -> dict[str, Schema] | None:
    """The columns that a function returns for empty frames; None if it fails for them, or returns something else."""
    code = task.variant.code
    assert isinstance(code, Function)
    frames = {argument: create_empty_frame(spark, to_nullable_ddl(schema)) for argument, schema in inputs.items()}
    outputs = [write.argument for write in task.writes]
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            result = code.call(**frames, **task.parameters)
            results = result if isinstance(result, Mapping) else dict.fromkeys(outputs[:1], result)
            return {name: drop_reserved(from_struct(results[name].schema)) for name in outputs}
    except Exception as error:  # a user's code may raise anything
        if is_lost(error):
            raise
        return None


def _format_error(error: PySparkException) -> str:
    """Spark's message, with the line and position that it names."""
    text = extract_first_line(error)
    positions = [c.summary().splitlines()[0].strip("= ") for c in error.getQueryContext() if "line" in c.summary()]
    message = str(error)
    if "(line " in message and "(line " not in text:
        positions.append(message[message.index("(line ") :].partition(")")[0].strip("("))
    return text if not positions or "line " in text else f"{text} ({positions[0].removeprefix('SQL ').strip('()')})"


def _find_obstacle(
    spark: SparkSession, root: Operator, result: DataFrame, channels: Mapping[str, DataFrame], is_lost: IsLost
) -> str | None:
    """Why the operators would not give the query's result, or not in a form that can be stored; None if they would."""

    def read_scan(scan: Scan | BlockScan) -> DataFrame:
        assert isinstance(scan, Scan)
        return channels[scan.channel]

    compiler = OperatorCompiler(spark, read_scan)
    try:
        incremental = compiler.build_frame(root).schema
        for union in (op for op in walk_operators(root) if isinstance(op, Union)):
            kinds = {tuple(f.dataType.simpleString() for f in compiler.build_frame(c).schema) for c in union.children}
            if len(kinds) > 1:
                return "the sides of a set operation differ in their types"
        stored = [(updates, compiler.build_frame(step).schema) for updates, step in _list_stored_tables(root)]
    except PySparkException as error:
        if is_lost(error):
            raise
        return f"Spark does not accept its operators ({error.getCondition()})"
    for computed, expected in zip(incremental.fields, result.schema.fields, strict=False):
        if computed.dataType != expected.dataType:
            batch, incremental_kind = expected.dataType.simpleString(), computed.dataType.simpleString()
            return f"column {expected.name} would be {batch} in batch and {incremental_kind} incrementally"
    for updates, struct in stored:
        for field in struct.fields:
            if not is_plain_type(field.dataType):
                return f"values of type {field.dataType.simpleString()} are only supported in batch"
        maps = [f.name for f in from_struct(struct) if not f.is_groupable] if isinstance(updates, Signed) else []
        if maps:
            return f"column {maps[0]} holds a map, and Spark cannot compare maps"
    return None


def _list_stored_tables(root: Operator) -> list[tuple[Updates, Operator]]:
    """The kind of updates and the rows of the result and of each state."""
    query = DeclaredQuery("analysed", root)
    states = [(state.updates, state.build_state(op.child)) for op, state in query.build_states().items()]  # type: ignore[union-attr]
    return [(query.updates, root), *states]
