"""One run of a program: each step on the driver or on Spark's executors.

The time of a small refresh is dominated by the fixed cost of Spark jobs. So the rows of a small step are computed on
the driver, or collected to it, and passed back to Spark as a local relation: later steps know its size, join by
broadcast, and are removed where it is empty. Selections from it need no job, and small outputs are written without one.
The rows of every other step stay on the executors.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache, partial, reduce
from itertools import count
from pathlib import Path
from time import perf_counter
from typing import TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructField, StructType

from tidemill.algebra import operators as ops
from tidemill.algebra.expression import build_column as build_value
from tidemill.algebra.rewrite.fuse_steps import FusedProgram, StepSlice
from tidemill.algebra.rewrite.passes import rewrite_local_statement, rewrite_step
from tidemill.local.batch import Batch, StoredRows, build_arrow_schema
from tidemill.local.engine import LocalEngine
from tidemill.local.spark_types import parse_ddl
from tidemill.local.values import Unsupported
from tidemill.model.run import StepReport
from tidemill.model.schema import Schema
from tidemill.planner.cost import ScanVolume
from tidemill.ports.engine import Log, WriteTarget
from tidemill.spark import batches
from tidemill.spark.block_writer import build_data_path, write_shaped_frame
from tidemill.spark.local_work import LocalWork
from tidemill.spark.operators import OperatorCompiler, estimate_rows
from tidemill.spark.parquet import read_parquet
from tidemill.spark.placement import Place, Placement, choose_place, measure_volume
from tidemill.spark.session import release_checkpoint, tag_jobs
from tidemill.spark.types import build_column, build_columns, to_content_schema

T = TypeVar("T")

WORKERS = 4
"""Steps and outputs that run concurrently: much of their time is spent waiting for Spark to plan."""


class ProgramRunner:
    """One run of a program. A step starts as soon as the steps that it reads are done.

    A step on the executors is a local checkpoint: Spark stores its rows without its plan. With the plan, each reader
    would repeat it and be repeated in turn, in Spark's planning and in its description of each query; dozens of steps
    filled the driver's memory. Spark cannot recompute a checkpoint that is lost with an executor: the run then fails,
    and is retried. A step that is an output is read back from its files.
    """

    def __init__(
        self,
        spark: SparkSession,
        compiler: Callable[[Callable[[str], DataFrame]], OperatorCompiler],
        program: FusedProgram,
        outputs: Mapping[str, WriteTarget],
        work: LocalWork,
        tag: str,
        log: Log,
        *,
        is_collected: bool,
    ) -> None:
        """`is_collected`: the rows of steps are so few that the driver may hold them."""
        self._spark = spark
        self._program = program
        self._outputs = outputs
        self._work = work
        self._tag_jobs = partial(tag_jobs, spark, tag)  # only around jobs: it takes several calls into Java
        self._log = log
        self._is_collected = is_collected
        directory = next((target.directory for target in outputs.values()), "")
        self._relations = batches.LocalRelations(spark, Path(directory) / "_steps", work.limits)
        self._results: dict[str, Batch | DataFrame] = {}
        self._empty: set[str] = set()
        self._checkpoints: list[DataFrame] = []
        self._written: dict[str, Schema] = {}
        self._names: dict[ops.Operator, str] = {}
        self._numbers = count()
        self._local = LocalEngine(work.database, self._read_leaf)
        self._compiler = compiler(cache(self._build_step_frame))

    def run(self) -> Mapping[str, Schema]:
        try:
            with ThreadPoolExecutor(WORKERS) as pool:
                return self._run_steps(pool)
        finally:
            for frame in self._checkpoints:
                release_checkpoint(frame)
            self._relations.close()

    def _run_steps(self, pool: ThreadPoolExecutor) -> Mapping[str, Schema]:
        """Run all steps and outputs. Work is submitted after its dependencies, so the pool cannot deadlock."""
        steps_done: dict[str, Future[None]] = {}

        def submit_after(required: Iterable[str], work: Callable[[], T]) -> Future[T]:
            return pool.submit(self._run_after, [steps_done[step] for step in required], work)

        for name, op in self._program.steps.items():
            steps_done[name] = submit_after(self._list_needed_steps(op), partial(self._run_step, name, op))
        outputs_written = {}
        for channel, pieces in self._program.outputs.items():
            needed = {s for p in pieces for s in ([p.step] if isinstance(p, StepSlice) else self._list_needed_steps(p))}
            outputs_written[channel] = submit_after(needed, partial(self._write_output, channel, pieces))
        for step in steps_done.values():
            step.result()
        return {channel: work.result() for channel, work in outputs_written.items()}

    def _run_after(self, required: list[Future[None]], work: Callable[[], T]) -> T:
        for step in required:
            step.result()
        return work()

    def _list_needed_steps(self, op: ops.Operator) -> set[str]:
        refs = (o.step for o in ops.walk_operators(op) if isinstance(o, ops.StepReference))
        return {self._program.slices[r].step if r in self._program.slices else r for r in refs}

    def _run_step(self, name: str, op: ops.Operator) -> None:
        simplified = rewrite_step(op, self._empty)
        if simplified is not None:
            rows = self._compute_rows(name, simplified)
            self._results[name] = rows if isinstance(rows, Batch) else self._store_frame(name, rows)
        for part in (name, *(n for n, p in self._program.slices.items() if p.step == name)):
            result = self._find_result(part)
            if result is None or (isinstance(result, Batch) and not result.table.num_rows):
                self._empty.add(part)

    def _find_result(self, name: str) -> Batch | DataFrame | None:
        """The rows of a step or of a slice of one; None if it was skipped as empty."""
        part = self._program.slices.get(name)
        if part is not None and name not in self._results and part.step in self._results:
            self._results[name] = _extract_part(self._results[part.step], part)
        return self._results.get(name)

    def _store_frame(self, name: str, frame: DataFrame) -> DataFrame:
        """Keep the rows of a step on the executors; an output's rows are written, and read back from its files."""
        with self._tag_jobs():
            if name not in self._outputs:
                self._checkpoints.append(frame.localCheckpoint())
                return self._checkpoints[-1]
            target = self._outputs[name]
            schema = self._written[name] = write_shaped_frame(frame, target)
        return read_parquet(self._spark, str(schema), [build_data_path(target.directory)])

    def _build_step_frame(self, name: str) -> DataFrame:
        """A step as a frame. A step that was skipped as empty still has its columns: an outer join may need them."""
        rows = self._find_result(name)
        if rows is None:
            part = self._program.slices.get(name)
            step = name if part is None else part.step
            self._results[step] = self._compiler.build_frame(self._program.steps[step]).limit(0)
            rows = self._find_result(name)
            assert rows is not None
        return rows if isinstance(rows, DataFrame) else self._relations.create_frame(rows)

    def _compute_rows(self, name: str, op: ops.Operator) -> Batch | DataFrame:
        """The rows of an operator: computed or collected by the driver if it may, else as a frame."""
        began = perf_counter()
        volume, placement = self._choose_place(op)
        rows: Batch | DataFrame | Unsupported | None = None
        if placement.place is Place.DRIVER:
            rows = self._execute_locally(op)
            if isinstance(rows, Unsupported):
                placement = Placement(Place.SPARK, f"the driver cannot: {rows}")
        if not isinstance(rows, Batch):
            rows = frame = self._compiler.build_frame(self._lower_operator(op))
            if self._is_collected:
                with self._tag_jobs():
                    rows = batches.collect_batch(frame) or frame
        self._report_step(name, placement, volume, perf_counter() - began, rows)
        return rows

    def _choose_place(self, op: ops.Operator) -> tuple[ScanVolume, Placement]:
        steps = {name: rows.table.num_rows for name, rows in list(self._results.items()) if isinstance(rows, Batch)}
        volume = measure_volume(op, steps)
        return volume, choose_place(volume, self._work.costs, self._work.limits)

    def _report_step(
        self, name: str, placement: Placement, volume: ScanVolume, seconds: float, rows: Batch | DataFrame
    ) -> None:
        size: tuple[int | None, int | None] = (None, None)
        if isinstance(rows, Batch):
            self._work.costs.add_step(placement.place, volume, seconds)
            size = (rows.table.num_rows, rows.table.nbytes)
        self._log.record_step(StepReport(name, placement.place, placement.reason, seconds, *size))

    def _execute_locally(self, op: ops.Operator) -> Batch | Unsupported:
        return self._local.try_execute(rewrite_local_statement(op))

    def _lower_operator(self, op: ops.Operator) -> ops.Operator:
        """The operator over locally computed rows, where those are few."""
        rows = self._execute_locally(op) if self._is_collected and self._can_lower(op) else None
        if not isinstance(rows, Batch) or rows.table.num_rows > self._work.limits.single_task_rows:
            return ops.map_children(op, self._lower_operator)
        name = self._names.setdefault(op, f"local {next(self._numbers)}")  # other steps add names concurrently
        self._results[name] = rows
        return ops.StepReference(name, op.columns)

    def _can_lower(self, op: ops.Operator) -> bool:
        """Whether the driver should compute it, given that Spark computes the operators above."""
        if isinstance(op, ops.StepReference):
            return False
        if all(isinstance(o, ops.BlockScan | ops.Projection | ops.Filter) for o in ops.walk_operators(op)):
            return estimate_rows(op) <= self._work.limits.single_task_rows
        return self._choose_place(op)[1].place is Place.DRIVER

    def _read_leaf(self, op: ops.Operator) -> Batch | StoredRows | None:
        """The rows of an operator that need no computation: steps and blocks."""
        if not isinstance(op, ops.StepReference):
            return self._work.read_leaf(op)
        rows = self._find_result(op.step)
        if not isinstance(rows, Batch):
            raise Unsupported("the rows of a step are on Spark's executors")
        return rows.select_columns(op.columns)

    def _write_output(self, channel: str, pieces: Sequence[StepSlice | ops.Operator]) -> Schema:
        if channel in self._written:
            return self._written[channel]
        parts = self._compute_parts(channel, pieces)
        target = self._outputs[channel]
        if parts and not all(isinstance(p, Batch) for p in parts):
            frames = (self._relations.create_frame(p) if isinstance(p, Batch) else p for p in parts)
            with self._tag_jobs():
                return write_shaped_frame(reduce(DataFrame.unionByName, frames), target)
        content = target.schema or self._infer_content_schema(channel)
        if not parts:
            return content
        schema = parse_ddl(str(target.to_physical_schema(content)))
        table = pa.concat_tables([self._shape_batch(p, schema) for p in parts if isinstance(p, Batch)])
        batches.write_batch(table.columns, schema, target)
        return content

    def _compute_parts(self, channel: str, pieces: Sequence[StepSlice | ops.Operator]) -> list[Batch | DataFrame]:
        """The rows of an output's parts that are not empty."""
        slices = [p for p in pieces if isinstance(p, StepSlice) and p.step not in self._empty]
        parts = [_extract_part(self._results[p.step], p) for p in slices]
        combined = ops.union_all(rewrite_step(p, self._empty) for p in pieces if not isinstance(p, StepSlice))
        return parts if combined is None else [*parts, self._compute_rows(f"rows of {channel}", combined)]

    def _infer_content_schema(self, channel: str) -> Schema:
        """The schema of a channel that was never written before. Its parts may differ in their types."""
        combined = ops.union_all(_to_operator(piece) for piece in self._program.outputs[channel])
        assert combined is not None
        return to_content_schema(self._compiler.build_frame(combined).schema)

    def _shape_batch(self, rows: Batch, schema: StructType) -> pa.Table:
        """The rows in exactly these columns; Spark casts values of other types, unless Arrow keeps them."""
        arrow = build_arrow_schema(schema)
        columns = [rows.table.column(name) for name in schema.names]
        try:
            if all(_keeps_values(c.type, f.type) for c, f in zip(columns, arrow, strict=True)):
                return pa.table([c.cast(f.type) for c, f in zip(columns, arrow, strict=True)], schema=arrow)
        except pa.ArrowInvalid:  # a value does not fit
            pass
        casts = (build_column(f.name).cast(f.dataType).alias(f.name) for f in schema.fields)
        with self._tag_jobs():
            table = batches.create_frame(self._spark, rows.table, rows.struct).select(*casts).toArrow()
        return pa.table([c.cast(f.type) for c, f in zip(table.columns, arrow, strict=True)], schema=arrow)


def _keeps_values(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether a cast by Arrow keeps each value, or fails."""
    if pa.types.is_decimal(source) and pa.types.is_decimal(target):
        return bool(source.scale == target.scale)
    return bool(source == target or pa.types.is_null(source))


def _to_operator(piece: StepSlice | ops.Operator) -> ops.Operator:
    """The columns of a slice, for all rows of the step."""
    if not isinstance(piece, StepSlice):
        return piece
    step = ops.StepReference(piece.step, tuple(dict.fromkeys(piece.columns.values())))
    return ops.Projection(step, ops.name_values({n: build_value(origin) for n, origin in piece.columns.items()}))


def _extract_part(rows: Batch | DataFrame, part: StepSlice) -> Batch | DataFrame:
    names = part.columns.items()
    if isinstance(rows, DataFrame):
        kept = reduce(DataFrame.filter, build_columns(part.conditions), rows)
        return kept.select(*(build_column(origin).alias(name) for name, origin in names))
    table = rows.table
    for keep in part.conditions:
        table = table.filter(table.column(keep))
    columns = pa.table({name: table.column(origin) for name, origin in names})
    return Batch(columns, StructType([StructField(name, rows.struct[origin].dataType) for name, origin in names]))
