"""Programs on Spark: compute each step once and write the outputs."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from tidemill.algebra.operators import ScanMode
from tidemill.algebra.program import DeclaredQuery, Program, RefreshMode, name_input
from tidemill.algebra.rewrite.expand_scans import RunContext
from tidemill.algebra.rewrite.passes import rewrite_program
from tidemill.algebra.views import QueryViews, Views
from tidemill.model.block import Block
from tidemill.model.schema import Schema
from tidemill.model.task import Refresh
from tidemill.model.view import ConvertedDelta, list_blocks
from tidemill.ports.engine import Log, WriteTarget
from tidemill.spark.batches import count_rows
from tidemill.spark.block_reader import BlockReader
from tidemill.spark.local_work import LocalWork
from tidemill.spark.operators import OperatorCompiler
from tidemill.spark.program_runner import ProgramRunner
from tidemill.spark.query_sessions import EngineSessions, is_small, run_query, write_result
from tidemill.spark.session import set_shuffle_partitions

UNPACKED = 8
"""Bytes of rows in memory for each byte of their files, at most, as a rule."""


@dataclass(frozen=True, slots=True)
class RefreshRun:
    """One run of a declared query in one refresh mode."""

    sessions: EngineSessions
    work: LocalWork
    code: Refresh
    inputs: Views
    outputs: Mapping[str, WriteTarget]
    tag: str
    log: Log

    def run(self) -> Mapping[str, Schema]:
        """Write the outputs: a full result by Spark from the user's text, changes and state by operators."""
        text = self.code.query_text
        if not self._is_full or text is None:
            return self._compute_outputs(self.outputs)
        table = self.code.table
        tables = {name: self.inputs[name_input(channel, ScanMode.NEW)] for name, channel in text.tables.items()}
        with run_query(self.sessions, self.work, text.query, tables, self.tag) as rows:
            small = is_small(tables, self.work.limits)
            schemas = {table: write_result(rows, self.outputs[table], is_collected=small)}
        states = {name: target for name, target in self.outputs.items() if name != table}
        return {**schemas, **self._compute_outputs(states)} if states else schemas

    @property
    def _is_full(self) -> bool:
        return self.code.mode in (RefreshMode.BATCH, RefreshMode.RECOMPUTE)

    def _compute_outputs(self, outputs: Mapping[str, WriteTarget]) -> Mapping[str, Schema]:
        limits = self.work.limits
        blocks = self._list_changed_blocks()
        is_stored_locally = all(t.directory.startswith("/") for t in outputs.values())
        fits = UNPACKED * sum(b.bytes for b in blocks) <= limits.driver_memory
        is_collected = limits.is_local and is_stored_locally and fits
        if not is_collected:  # Spark also joins and groups the contents
            blocks = _list_all_blocks(self.inputs)
        is_single_task = count_rows(blocks) <= limits.single_task_rows
        is_small = is_collected or is_single_task
        spark = self.sessions.quick_session if is_small else self.sessions.spark
        if is_small:
            set_shuffle_partitions(spark, partitions=1 if is_single_task else None)
        views = QueryViews(self.code.query, self.inputs, self.work.expansion)
        context = RunContext(views.expand_scans, lambda scan: is_small and scan.rows <= limits.single_task_rows)
        program = rewrite_program(_build_program(self.code, views).select_outputs(outputs), context)
        compiler = partial(
            OperatorCompiler,
            spark,
            BlockReader(spark, self.work).read_scan,
            single_task_rows=limits.single_task_rows if is_single_task else 0,
            is_small=limits.is_small_change,
        )
        runner = ProgramRunner(
            spark, compiler, program, outputs, self.work, self.tag, self.log, is_collected=is_collected
        )
        return runner.run()

    def _list_changed_blocks(self) -> list[Block]:
        """The blocks whose rows determine how much the steps compute."""
        views = self.inputs
        if not self._is_full:
            changes = (name_input(c, ScanMode.CHANGE) for c in self.code.query.channels)
            chains = {name: views[name] for name in changes if name in views}
            views = {n: v.chain if isinstance(v, ConvertedDelta) else v for n, v in chains.items()}
        return _list_all_blocks(views)


def _list_all_blocks(views: Views) -> list[Block]:
    return [b for view in views.values() for b in list_blocks(view)]


def _build_program(code: Refresh, channels: QueryViews) -> Program:
    query: DeclaredQuery = code.query
    match code.mode:
        case RefreshMode.BATCH:
            return query.build_batch()
        case RefreshMode.RECOMPUTE:
            return query.build_recompute()
        case _:
            return query.build_incremental(channels.list_changed_channels(), channels.list_deferred_channels())
