"""One run of a program: each step on the driver or on Spark's executors.

The time of a small refresh is dominated by the fixed cost of Spark jobs. So the rows of a small step are computed on
the driver, or collected to it, and passed back to Spark as a local relation: later steps know its size, join by
broadcast, and are removed where it is empty. Selections from it need no job, and small outputs are written without one.
The rows of every other step stay on the executors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial, reduce
from itertools import count
from typing import TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructField, StructType

from tidemill.algebra.expression import build_column as build_value
from tidemill.algebra.operators import (
    Aggregation,
    BlockScan,
    Join,
    JoinKind,
    NamedExpression,
    Operator,
    Projection,
    StepReference,
    Union,
    list_children,
    map_children,
    select_columns,
    walk_operators,
)
from tidemill.algebra.rewrite.fuse_steps import FusedProgram, StepSlice
from tidemill.algebra.rewrite.passes import rewrite_step
from tidemill.model.schema import Schema
from tidemill.ports.engine import WriteTarget
from tidemill.spark.block_writer import build_data_path, save_frame
from tidemill.spark.local import batches
from tidemill.spark.local.batches import LocalBatch
from tidemill.spark.local.leaves import LocalBlockReader
from tidemill.spark.local.operators import LocalExecutor
from tidemill.spark.operators import OperatorCompiler, is_lookup
from tidemill.spark.parquet import read_parquet
from tidemill.spark.session import release_checkpoint, tag_jobs
from tidemill.spark.types import build_column, build_columns, parse_ddl, to_content_schema

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
        compiler: Callable[[Mapping[str, DataFrame]], OperatorCompiler],
        program: FusedProgram,
        outputs: Mapping[str, WriteTarget],
        tag: str,
        *,
        local: LocalBlockReader | None = None,
        relations: batches.LocalRelations | None = None,
    ) -> None:
        """`local`: reads blocks on the driver; without it, Spark computes every step."""
        self._spark = spark
        self._program = program
        self._outputs = outputs
        self._tag = tag
        self._blocks = local
        self._relations = relations
        self._results: dict[str, LocalBatch | DataFrame] = {}
        self._empty: set[str] = set()
        self._checkpoints: list[DataFrame] = []
        self._written: dict[str, Schema] = {}
        self._names: dict[Operator, str] = {}
        self._numbers = count()
        self._local = LocalExecutor(self._read_leaf)
        self._compiler = compiler(_StepFrames(self._build_step_frame))

    def run(self) -> Mapping[str, Schema]:
        try:
            with ThreadPoolExecutor(WORKERS) as pool:
                return self._run_steps(pool)
        finally:
            for frame in self._checkpoints:
                release_checkpoint(frame)
            if self._relations is not None:
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
        with tag_jobs(self._spark, self._tag):
            return work()

    def _list_needed_steps(self, op: Operator) -> set[str]:
        """The steps that an operator reads."""
        refs = (o.step for o in walk_operators(op) if isinstance(o, StepReference))
        return {self._program.slices[r].step if r in self._program.slices else r for r in refs}

    def _run_step(self, name: str, op: Operator) -> None:
        simplified = rewrite_step(op, self._empty)
        if simplified is not None:
            rows = self._compute_rows(simplified)
            self._results[name] = rows if isinstance(rows, LocalBatch) else self._store_frame(name, rows)
        for part in (name, *(n for n, p in self._program.slices.items() if p.step == name)):
            if self._is_empty(part):
                self._empty.add(part)

    def _is_empty(self, name: str) -> bool:
        rows = self._find_result(name)
        return rows is None or (isinstance(rows, LocalBatch) and not rows.table.num_rows)

    def _find_result(self, name: str) -> LocalBatch | DataFrame | None:
        """The rows of a step or of a slice of one; None if it was skipped as empty."""
        part = self._program.slices.get(name)
        if part is not None and name not in self._results and part.step in self._results:
            self._results[name] = _extract_part(self._results[part.step], part)
        return self._results.get(name)

    def _store_frame(self, name: str, frame: DataFrame) -> DataFrame:
        """Keep the rows of a step on the executors; an output's rows are written, and read back from its files."""
        if name not in self._outputs:
            self._checkpoints.append(frame.localCheckpoint(eager=False))
            return self._checkpoints[-1]
        target = self._outputs[name]
        schema = self._written[name] = _write_frame(frame, target)
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
        return rows if isinstance(rows, DataFrame) else self._create_frame(rows)

    def _create_frame(self, rows: LocalBatch) -> DataFrame:
        return rows.to_frame(self._spark) if self._relations is None else self._relations.create_frame(rows)

    def _compute_rows(self, op: Operator) -> LocalBatch | DataFrame:
        """The rows of an operator: computed or collected by the driver if it may, else as a frame."""
        if self._blocks is None:
            return self._compiler.build_frame(op)
        rows = self._local(op)
        if rows is not None:
            return rows
        frame = self._compiler.build_frame(self._lower_operator(op))
        try:
            return LocalBatch.from_frame(frame)
        except batches.ResultTooLarge:  # a few rows may become many
            return frame

    def _lower_operator(self, op: Operator) -> Operator:
        """The operator over locally computed rows, unless there are so many that Spark should read them itself."""
        rows = self._local(op)
        if rows is None or (
            rows.table.num_rows > batches.MAX_SINGLE_TASK_ROWS and not any(map(self._is_heavy, walk_operators(op)))
        ):
            return map_children(op, self._lower_operator)
        name = self._names.setdefault(op, f"local {next(self._numbers)}")  # other steps add names concurrently
        self._results[name] = rows
        return StepReference(name, op.columns)

    def _is_heavy(self, op: Operator) -> bool:
        """Whether many rows were grouped or joined for it."""
        match op:
            case Aggregation() | Join(kind=JoinKind.INNER | JoinKind.LEFT | JoinKind.RIGHT | JoinKind.FULL):
                inputs = [self._local.find_result(child) for child in list_children(op)]
                return any(rows is not None and rows.table.num_rows > batches.MAX_SINGLE_TASK_ROWS for rows in inputs)
        return False

    def _read_leaf(self, op: Operator) -> LocalBatch | None:
        """The rows of an operator that need no computation: steps, small blocks, and keys looked up in blocks."""
        assert self._blocks is not None
        match op:
            case StepReference():
                rows = self._find_result(op.step)
                return rows.select_columns(op.columns) if isinstance(rows, LocalBatch) else None
            case BlockScan():
                return self._blocks.read_scan(op)
            case Join(left=BlockScan() as scan) if is_lookup(op) and not self._blocks.is_local(scan):
                keys = self._compute_rows(select_columns(op.right, list(dict.fromkeys(op.right_keys))))
                return self._blocks.find_by_keys(scan, keys.table, op.keys) if isinstance(keys, LocalBatch) else None
        return None

    def _write_output(self, channel: str, pieces: Sequence[StepSlice | Operator]) -> Schema:
        if channel in self._written:
            return self._written[channel]
        parts = self._compute_parts(pieces)
        target = self._outputs[channel]
        if parts and not all(isinstance(p, LocalBatch) for p in parts):
            return _write_frame(self._union_parts(parts), target)
        content = target.schema or self._infer_content_schema(channel)
        if not parts:
            return content
        schema = parse_ddl(str(target.to_physical_schema(content)))
        table = pa.concat_tables([self._shape_batch(p, schema) for p in parts if isinstance(p, LocalBatch)])
        batches.write_batch(table.columns, schema, target)
        return content

    def _compute_parts(self, pieces: Sequence[StepSlice | Operator]) -> list[LocalBatch | DataFrame]:
        """The rows of an output's parts that are not empty."""
        slices = [p for p in pieces if isinstance(p, StepSlice) and p.step not in self._empty]
        parts = [_extract_part(self._results[p.step], p) for p in slices]
        operators = [
            s for p in pieces if not isinstance(p, StepSlice) and (s := rewrite_step(p, self._empty)) is not None
        ]
        if operators:
            parts.append(self._compute_rows(operators[0] if len(operators) == 1 else Union(tuple(operators))))
        return parts

    def _union_parts(self, parts: Sequence[LocalBatch | DataFrame]) -> DataFrame:
        frames = [self._create_frame(p) if isinstance(p, LocalBatch) else p for p in parts]
        return reduce(DataFrame.unionByName, frames)

    def _infer_content_schema(self, channel: str) -> Schema:
        """The schema of a channel that was never written before. Its parts may differ in their types."""
        pieces = [_project_part(p) if isinstance(p, StepSlice) else p for p in self._program.outputs[channel]]
        combined = pieces[0] if len(pieces) == 1 else Union(tuple(pieces))
        rows = self._local(combined) if self._blocks is not None else None
        struct = rows.struct if rows is not None else self._compiler.build_frame(combined).schema
        return to_content_schema(struct)

    def _shape_batch(self, rows: LocalBatch, schema: StructType) -> pa.Table:
        """The rows in exactly these columns; Spark casts values of other types."""
        arrow = batches.build_arrow_schema(schema)
        columns = [rows.table.column(name) for name in schema.names]
        if not all(c.type == f.type or pa.types.is_null(c.type) for c, f in zip(columns, arrow, strict=True)):
            casts = (build_column(f.name).cast(f.dataType).alias(f.name) for f in schema.fields)
            columns = rows.to_frame(self._spark).select(*casts).toArrow().columns
        return pa.table([c.cast(f.type) for c, f in zip(columns, arrow, strict=True)], schema=arrow)


def _project_part(part: StepSlice) -> Operator:
    """The columns of a slice, for all rows of the step."""
    items = tuple(NamedExpression(name, build_value(origin)) for name, origin in part.columns.items())
    return Projection(StepReference(part.step, tuple(dict.fromkeys(part.columns.values()))), items)


def _extract_part(rows: LocalBatch | DataFrame, part: StepSlice) -> LocalBatch | DataFrame:
    names = part.columns.items()
    if isinstance(rows, DataFrame):
        kept = reduce(DataFrame.filter, build_columns(part.conditions), rows)
        return kept.select(*(build_column(origin).alias(name) for name, origin in names))
    table = rows.table
    for keep in part.conditions:
        table = table.filter(table.column(keep))
    columns = pa.table({name: table.column(origin) for name, origin in names})
    return LocalBatch(columns, StructType([StructField(name, rows.struct[origin].dataType) for name, origin in names]))


def _write_frame(frame: DataFrame, target: WriteTarget) -> Schema:
    content = target.schema or to_content_schema(frame.schema)
    shaped = frame.select(
        *(build_column(f.name).cast(f.type).alias(f.name) for f in target.to_physical_schema(content))
    )
    save_frame(shaped, target)
    return content


class _StepFrames(dict[str, DataFrame]):
    """Steps as frames, each created on first access."""

    def __init__(self, build_frame: Callable[[str], DataFrame]) -> None:
        super().__init__()
        self._build_frame = build_frame

    def __missing__(self, name: str) -> DataFrame:
        self[name] = self._build_frame(name)
        return self[name]
