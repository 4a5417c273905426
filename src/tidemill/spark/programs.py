"""Programs on Spark: compute each step once and write the outputs."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from tidemill.algebra.declare import CHANGE, NEW
from tidemill.algebra.fuse import fuse_steps, inline_steps
from tidemill.algebra.operators import Operator
from tidemill.algebra.program import MAX_COLLECTED_ROWS, DeclaredQuery, Program, ProgramOutput, RefreshMode
from tidemill.algebra.prune import prune_program
from tidemill.model.block import Block
from tidemill.model.schema import Schema
from tidemill.model.task import Refresh
from tidemill.model.view import ConvertedDelta, list_blocks
from tidemill.ports.engine import WriteTarget
from tidemill.spark.block_writer import build_data_path, require_schema, save_frame
from tidemill.spark.channels import ChannelScans, Views
from tidemill.spark.local import batches
from tidemill.spark.operators import OperatorCompiler, ScanSource
from tidemill.spark.parquet import read_parquet
from tidemill.spark.query_sessions import EngineSessions, is_small, run_query, write_result
from tidemill.spark.session import release_checkpoint, set_shuffle_partitions
from tidemill.spark.small_programs import SmallProgramRunner
from tidemill.spark.types import build_column, to_content_schema
from tidemill.spark.view_reader import Locate, ViewReader

MAX_DRIVER_ROWS = 8_000
"""Rows of contents up to which the driver recomputes everything: the result may have many more."""


def run_refresh(
    sessions: EngineSessions, locate: Locate, code: Refresh, inputs: Views, outputs: Mapping[str, WriteTarget], tag: str
) -> Mapping[str, Schema]:
    """Run a declared query in one refresh mode and write its outputs; returns the content schema of each.

    A full result is computed by Spark from the user's text. Operators compute changes, and the state for later
    refreshes.
    """
    is_full = code.mode in (RefreshMode.BATCH, RefreshMode.RECOMPUTE)
    if not is_full or code.query_text is None:
        return _compute_outputs(sessions, locate, code, inputs, outputs, tag)
    tables = {name: inputs[channel + NEW] for name, channel in code.query_text.tables.items()}
    with run_query(sessions, locate, code.query_text.query, tables, tag) as rows:
        schemas = {code.table: write_result(rows, outputs[code.table], small=is_small(tables))}
    states = {name: target for name, target in outputs.items() if name != code.table}
    return {**schemas, **_compute_outputs(sessions, locate, code, inputs, states, tag)} if states else schemas


def _compute_outputs(
    sessions: EngineSessions, locate: Locate, code: Refresh, inputs: Views, outputs: Mapping[str, WriteTarget], tag: str
) -> Mapping[str, Schema]:
    """Compute these outputs from the operators."""
    is_full = code.mode in (RefreshMode.BATCH, RefreshMode.RECOMPUTE)
    blocks = _list_content_blocks(inputs) if is_full else _list_change_blocks(code.query, inputs)
    is_local_store = all(t.directory.startswith("/") for t in outputs.values())
    if is_local_store and batches.has_few_rows(blocks, MAX_DRIVER_ROWS if is_full else MAX_COLLECTED_ROWS):
        with suppress(batches.ResultTooLarge):  # a few rows may become many
            return _run_small(
                sessions.quick_session,
                locate,
                code,
                inputs,
                outputs,
                tag,
                single_task=batches.has_few_rows(blocks, batches.MAX_SINGLE_TASK_ROWS),
            )
    channels = ChannelScans(ViewReader(sessions.spark, locate), code.query, inputs)
    return ProgramRunner(
        sessions.spark, channels, _build_program(code, channels).select_outputs(outputs), outputs
    ).run()


def _run_small(
    spark: SparkSession,
    locate: Locate,
    code: Refresh,
    inputs: Views,
    outputs: Mapping[str, WriteTarget],
    tag: str,
    *,
    single_task: bool,
) -> Mapping[str, Schema]:
    relations = batches.LocalRelations(spark, Path(next(iter(outputs.values())).directory) / "_steps")
    channels = ChannelScans(ViewReader(spark, locate, relations=relations), code.query, inputs)
    program = _build_program(code, channels).select_outputs(outputs).map_operators(channels.expand_contents)
    fused = fuse_steps(inline_steps(prune_program(program), channels.is_local))
    set_shuffle_partitions(spark, partitions=1 if single_task else None)
    return SmallProgramRunner(spark, channels, fused, outputs, relations, tag, single_task=single_task).run()


def _build_program(code: Refresh, channels: ChannelScans) -> Program:
    query: DeclaredQuery = code.query
    match code.mode:
        case RefreshMode.BATCH:
            return query.build_batch()
        case RefreshMode.RECOMPUTE:
            return query.build_recompute()
        case _:
            return query.build_incremental(channels.list_changed_channels(), channels.list_deferred_channels())


def _list_content_blocks(inputs: Views) -> list[Block]:
    return [b for view in inputs.values() for b in list_blocks(view)]


def _list_change_blocks(query: DeclaredQuery, inputs: Views) -> list[Block]:
    views = [inputs[c + CHANGE] for c in query.channels if c + CHANGE in inputs]
    return [b for view in views for b in list_blocks(view.chain if isinstance(view, ConvertedDelta) else view)]


class ProgramRunner:
    """One run of a program on all rows.

    A step that is an output is read back from its files. Every other step is a local checkpoint: Spark stores its rows
    on the executors without its plan. With the plan, each reader would repeat it and be repeated in turn, in Spark's
    planning and in its description of each query; dozens of steps filled the driver's memory. Spark cannot recompute
    a checkpoint that is lost with an executor: the run then fails, and is retried.
    """

    def __init__(
        self, spark: SparkSession, channels: ScanSource, program: Program, outputs: Mapping[str, WriteTarget]
    ) -> None:
        self._spark = spark
        self._program = program
        self._outputs = outputs
        self.steps: dict[str, DataFrame] = {}
        self._checkpoints: list[DataFrame] = []
        self._compiler = OperatorCompiler(spark, channels, self.steps)

    def run(self) -> Mapping[str, Schema]:
        try:
            schemas = {}
            for name, op in self._program.steps.items():
                if name in self._outputs:
                    schemas[name] = self._write_step(name, op)
                else:
                    self.steps[name] = self._checkpoint_step(op)
            for output in self._program.outputs:
                if output.channel not in schemas:
                    schemas[output.channel] = self._write_output(output)
            return schemas
        finally:
            self._compiler.close()
            for frame in self._checkpoints:
                release_checkpoint(frame)

    def _checkpoint_step(self, op: Operator) -> DataFrame:
        self._checkpoints.append(self._compiler.build_frame(op).localCheckpoint(eager=False))
        return self._checkpoints[-1]

    def _write_step(self, name: str, op: Operator) -> Schema:
        """Write a step that is an output, and read it back from its files."""
        target = self._outputs[name]
        schema = _write_frame(self._compiler.build_frame(op), target)
        self.steps[name] = read_parquet(self._spark, str(schema), [build_data_path(target.directory)])
        return schema

    def _write_output(self, output: ProgramOutput) -> Schema:
        target = self._outputs[output.channel]
        return (
            require_schema(target)
            if output.rows is None
            else _write_frame(self._compiler.build_frame(output.rows), target)
        )


def _write_frame(frame: DataFrame, target: WriteTarget) -> Schema:
    content = target.schema or to_content_schema(frame.schema)
    shaped = frame.select(
        *(build_column(f.name).cast(f.type).alias(f.name) for f in target.to_physical_schema(content))
    )
    save_frame(shaped, target)
    return content
