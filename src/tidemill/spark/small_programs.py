"""Programs for small changes.

The time of a small refresh is dominated by the fixed cost of Spark jobs. So a step of a small change is collected to
the driver and passed back to Spark as a local relation: later steps know its size, join by broadcast, and are removed
where it is empty. Selections from it need no job, and small outputs are written without one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from itertools import count
from typing import TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructField, StructType

from tidemill.algebra.expression import build_column as value
from tidemill.algebra.fuse import FusedProgram, StepSlice
from tidemill.algebra.operators import (
    Aggregation,
    Join,
    JoinKind,
    NamedExpression,
    Operator,
    Projection,
    Scan,
    StepReference,
    Union,
    list_children,
    map_children,
    select_columns,
    walk_operators,
)
from tidemill.algebra.simplify import remove_empty_steps
from tidemill.model.schema import Schema
from tidemill.ports.engine import WriteTarget
from tidemill.spark.local import batches
from tidemill.spark.local.batches import LocalBatch
from tidemill.spark.local.operators import LocalExecutor
from tidemill.spark.operators import OperatorCompiler, ScanSource, is_lookup
from tidemill.spark.session import tag_jobs
from tidemill.spark.types import build_column, to_content_schema

T = TypeVar("T")

WORKERS = 4
"""Steps and outputs that run concurrently."""


class SmallProgramRunner:
    """One run of a program on a small change: few steps, with the rows of all steps on the driver.

    A step starts as soon as the steps that it reads are done, because much of its time is spent waiting for Spark to
    plan.
    """

    def __init__(
        self,
        spark: SparkSession,
        channels: ScanSource,
        program: FusedProgram,
        outputs: Mapping[str, WriteTarget],
        relations: batches.LocalRelations,
        tag: str,
        *,
        single_task: bool = True,
    ) -> None:
        """`single_task`: the rows of a step are few enough for one task."""
        self._spark = spark
        self._program = program
        self._outputs = outputs
        self._tag = tag
        self._rows: dict[str, LocalBatch] = {}
        self._empty: set[str] = set()
        self._channels = channels
        self._relations = relations
        self._names: dict[Operator, str] = {}
        self._numbers = count()
        self._local = LocalExecutor(self._read_leaf)
        self._compiler = OperatorCompiler(
            spark,
            channels,
            _StepFrames(self._build_frame),
            single_task=single_task,
            collect=lambda op: self._compute_batch(op).table,
        )

    def run(self) -> Mapping[str, Schema]:
        try:
            with ThreadPoolExecutor(WORKERS) as pool:
                return self._run_steps(pool)
        finally:
            self._compiler.close()
            self._relations.close()

    def _run_steps(self, pool: ThreadPoolExecutor) -> Mapping[str, Schema]:
        """Run all steps and outputs. Work is submitted after its dependencies, so the pool cannot deadlock."""
        steps_done: dict[str, Future[None]] = {}

        def submit_after(required: Iterable[str], work: Callable[[], T]) -> Future[T]:
            return pool.submit(self._run_after, [steps_done[step] for step in required], work)

        for name, op in self._program.steps.items():
            steps_done[name] = submit_after(self._list_needed_steps(op), partial(self._run_step, name, op))
        outputs_written: dict[str, Future[Schema]] = {}
        for channel, pieces in self._program.outputs.items():
            parts = [p for p in pieces if isinstance(p, StepSlice)]
            operators = [p for p in pieces if not isinstance(p, StepSlice)]
            remaining = submit_after(
                (step for op in operators for step in self._list_needed_steps(op)),
                partial(self._compute_rest, operators),
            )
            steps = [p.step for p in parts]
            outputs_written[channel] = submit_after(steps, partial(self._write_output, channel, parts, remaining))
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
        simplified = remove_empty_steps(op, self._empty)
        if simplified is not None:
            self._rows[name] = self._compute_batch(simplified)
            for part, definition in self._program.slices.items():
                if definition.step == name:
                    self._rows[part] = _extract_part(self._rows[name], definition)
        names = (name, *(n for n, p in self._program.slices.items() if p.step == name))
        self._empty |= {n for n in names if n not in self._rows or not self._rows[n].table.num_rows}

    def _build_frame(self, name: str) -> DataFrame:
        """A step as a frame. A step that was skipped as empty still has its columns: an outer join may need them."""
        if name not in self._rows:
            part = self._program.slices.get(name)
            step = name if part is None else part.step
            empty = self._compiler.build_frame(self._program.steps[step]).limit(0)
            self._rows[step] = LocalBatch.from_frame(empty)
            self._rows[name] = self._rows[step] if part is None else _extract_part(self._rows[step], part)
        return self._relations.create_frame(self._rows[name])

    def _compute_batch(self, op: Operator) -> LocalBatch:
        """The rows of an operator: locally on the driver if possible, else by Spark."""
        rows = self._local(op)
        return rows if rows is not None else LocalBatch.from_frame(self._compiler.build_frame(self._lower_operator(op)))

    def _lower_operator(self, op: Operator) -> Operator:
        """The operator over locally computed rows, unless there are so many that Spark should read them itself."""
        rows = self._local(op)
        if rows is None or (
            rows.table.num_rows > batches.MAX_SINGLE_TASK_ROWS and not any(map(self._is_heavy, walk_operators(op)))
        ):
            return map_children(op, self._lower_operator)
        name = self._names.setdefault(op, f"local {next(self._numbers)}")  # other steps add names concurrently
        self._rows[name] = rows
        return StepReference(name, op.columns)

    def _is_heavy(self, op: Operator) -> bool:
        """Whether many rows were grouped or joined for it."""
        match op:
            case Aggregation() | Join(kind=JoinKind.INNER | JoinKind.LEFT | JoinKind.RIGHT | JoinKind.FULL):
                inputs = [self._local.find_result(child) for child in list_children(op)]
                return any(rows is not None and rows.table.num_rows > batches.MAX_SINGLE_TASK_ROWS for rows in inputs)
        return False

    def _read_leaf(self, op: Operator) -> LocalBatch | None:
        """The rows of an operator that need no computation: steps, small changes, and keys looked up in a content."""
        match op:
            case StepReference() if op.step in self._rows:
                return self._rows[op.step].select_columns(op.columns)
            case Scan():
                return self._channels.read_local(op)
            case Join(left=Scan() as scan) if is_lookup(op) and not self._channels.is_local(scan):
                keys = select_columns(op.right, list(dict.fromkeys(k for _, k in op.keys)))
                return self._channels.find_by_keys(scan, self._compute_batch(keys).table, op.keys)
        return None

    def _compute_rest(self, pieces: list[Operator]) -> LocalBatch | None:
        """The rows of an output's operators that are not slices of steps; None if there are none."""
        nonempty = [s for p in pieces if (s := remove_empty_steps(p, self._empty)) is not None]
        return self._compute_batch(nonempty[0] if len(nonempty) == 1 else Union(tuple(nonempty))) if nonempty else None

    def _write_output(self, channel: str, parts: list[StepSlice], operator_rows: Future[LocalBatch | None]) -> Schema:
        rows = [_extract_part(self._rows[p.step], p) for p in parts if p.step not in self._empty]
        if (operator_batch := operator_rows.result()) is not None:
            rows.append(operator_batch)
        target = self._outputs[channel]
        content = target.schema or self._infer_content_schema(channel)
        if not rows:
            return content
        schema = batches.parse_ddl(str(target.to_physical_schema(content)))
        table = pa.concat_tables([self._shape_batch(r, schema) for r in rows])
        batches.write_batch(table.columns, schema, target)
        return content

    def _infer_content_schema(self, channel: str) -> Schema:
        """The schema of a channel that was never written before. Its parts may differ in their types."""
        pieces = [_project_part(p) if isinstance(p, StepSlice) else p for p in self._program.outputs[channel]]
        combined = pieces[0] if len(pieces) == 1 else Union(tuple(pieces))
        rows = self._local(combined)
        return to_content_schema(
            rows.struct if rows is not None else self._compiler.build_frame(self._lower_operator(combined)).schema
        )

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
    items = tuple(NamedExpression(name, value(origin)) for name, origin in part.columns.items())
    return Projection(StepReference(part.step, tuple(dict.fromkeys(part.columns.values()))), items)


def _extract_part(batch: LocalBatch, part: StepSlice) -> LocalBatch:
    rows = batch.table
    for keep in part.conditions:
        rows = rows.filter(rows.column(keep))
    names = part.columns.items()
    table = pa.table({name: rows.column(origin) for name, origin in names})
    return LocalBatch(table, StructType([StructField(name, batch.struct[origin].dataType) for name, origin in names]))


class _StepFrames(dict[str, DataFrame]):
    """Steps as frames, each created on first access."""

    def __init__(self, build_frame: Callable[[str], DataFrame]) -> None:
        super().__init__()
        self._build_frame = build_frame

    def __missing__(self, name: str) -> DataFrame:
        self[name] = self._build_frame(name)
        return self[name]
