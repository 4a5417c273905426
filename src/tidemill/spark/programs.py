"""Programs on Spark: compute each step once and write the outputs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tidemill.algebra.operators import ScanMode
from tidemill.algebra.program import MAX_COLLECTED_ROWS, DeclaredQuery, Program, RefreshMode, name_input
from tidemill.algebra.query_views import QueryViews, Views
from tidemill.algebra.rewrite.expand_scans import RunContext
from tidemill.algebra.rewrite.passes import rewrite_program
from tidemill.model.block import Block
from tidemill.model.schema import Schema
from tidemill.model.task import Refresh
from tidemill.model.view import ConvertedDelta, list_blocks
from tidemill.ports.engine import WriteTarget
from tidemill.spark.block_reader import BlockReader, Locate
from tidemill.spark.local import batches
from tidemill.spark.local.leaves import LocalBlockReader
from tidemill.spark.operators import OperatorCompiler
from tidemill.spark.program_runner import ProgramRunner
from tidemill.spark.query_sessions import EngineSessions, is_small, run_query, write_result
from tidemill.spark.session import set_shuffle_partitions

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
    tables = {name: inputs[name_input(channel, ScanMode.NEW)] for name, channel in code.query_text.tables.items()}
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
    is_local = is_local_store and batches.has_few_rows(blocks, MAX_DRIVER_ROWS if is_full else MAX_COLLECTED_ROWS)
    is_single_task = is_local and batches.has_few_rows(blocks, batches.MAX_SINGLE_TASK_ROWS)
    spark = sessions.quick_session if is_local else sessions.spark
    local = LocalBlockReader(locate) if is_local else None
    views = QueryViews(code.query, inputs)
    context = RunContext(views.expand_scans, local.is_local if local is not None else lambda _: False)
    program = rewrite_program(_build_program(code, views).select_outputs(outputs), context)
    if is_local:
        set_shuffle_partitions(spark, partitions=1 if is_single_task else None)
    return ProgramRunner(
        spark,
        lambda steps: OperatorCompiler(
            spark,
            BlockReader(spark, locate).read_scan,
            steps,
            single_task_rows=batches.MAX_SINGLE_TASK_ROWS if is_single_task else 0,
        ),
        program,
        outputs,
        tag,
        local=local,
        relations=batches.LocalRelations(spark, Path(next(iter(outputs.values())).directory) / "_steps")
        if is_local
        else None,
    ).run()


def _build_program(code: Refresh, channels: QueryViews) -> Program:
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
    names = [name_input(c, ScanMode.CHANGE) for c in query.channels]
    views = [inputs[name] for name in names if name in inputs]
    return [b for view in views for b in list_blocks(view.chain if isinstance(view, ConvertedDelta) else view)]
