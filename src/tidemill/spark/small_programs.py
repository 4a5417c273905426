"""Programs for small changes.

A refresh that touches little is dominated by the fixed price of Spark's jobs. So a step of a small change is
collected to the driver and given back as a local relation: what follows knows its size, joins by broadcast, and is
optimised away where it is empty. What is only picked from it needs no job, and small outputs are written without one.
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
"""Steps and outputs that go on side by side."""


class SmallProgramRunner:
    """One run of a program on a small change: few steps, and the rows of all of them at hand.

    A step begins as soon as those that it reads are done: much of what it takes is waiting for Spark to plan.
    """

    def __init__(
        self,
        spark: SparkSession,
        channels: ScanSource,
        program: FusedProgram,
        outputs: Mapping[str, WriteTarget],
        hand: batches.LocalRelations,
        tag: str,
        *,
        in_one: bool = True,
    ) -> None:
        """`in_one`: the rows of a step are few enough for one task."""
        self._spark = spark
        self._program = program
        self._outputs = outputs
        self._tag = tag
        self._rows: dict[str, LocalBatch] = {}
        self._empty: set[str] = set()
        self._channels = channels
        self._hand = hand
        self._names: dict[Operator, str] = {}
        self._numbers = count()
        self._by_hand = LocalExecutor(self._read_leaf)
        self._compiler = OperatorCompiler(
            spark,
            channels,
            _StepFrames(self._build_frame),
            in_one=in_one,
            collected=lambda op: self._compute_batch(op).table,
        )

    def run(self) -> Mapping[str, Schema]:
        try:
            with ThreadPoolExecutor(WORKERS) as pool:
                return self._run_steps(pool)
        finally:
            self._compiler.close()
            self._hand.close()

    def _run_steps(self, pool: ThreadPoolExecutor) -> Mapping[str, Schema]:
        """Whatever waits for something was submitted after it, so that the pool never waits for itself."""
        done: dict[str, Future[None]] = {}

        def submit_after(needed: Iterable[str], work: Callable[[], T]) -> Future[T]:
            return pool.submit(self._run_after, [done[step] for step in needed], work)

        for name, op in self._program.steps.items():
            done[name] = submit_after(self._list_needed_steps(op), partial(self._run_step, name, op))
        written: dict[str, Future[Schema]] = {}
        for channel, pieces in self._program.outputs.items():
            parts = [p for p in pieces if isinstance(p, StepSlice)]
            others = [p for p in pieces if not isinstance(p, StepSlice)]
            rest = submit_after(
                (step for op in others for step in self._list_needed_steps(op)), partial(self._compute_rest, others)
            )
            steps = [p.step for p in parts]
            written[channel] = submit_after(steps, partial(self._write_output, channel, parts, rest))
        for step in done.values():
            step.result()
        return {channel: work.result() for channel, work in written.items()}

    def _run_after(self, needed: list[Future[None]], work: Callable[[], T]) -> T:
        for step in needed:
            step.result()
        with tag_jobs(self._spark, self._tag):
            return work()

    def _list_needed_steps(self, op: Operator) -> set[str]:
        """The steps that an operator reads."""
        refs = (o.step for o in walk_operators(op) if isinstance(o, StepReference))
        return {self._program.parts[r].step if r in self._program.parts else r for r in refs}

    def _run_step(self, name: str, op: Operator) -> None:
        rest = remove_empty_steps(op, self._empty)
        if rest is not None:
            self._rows[name] = self._compute_batch(rest)
            for part, definition in self._program.parts.items():
                if definition.step == name:
                    self._rows[part] = _extract_part(self._rows[name], definition)
        names = (name, *(n for n, p in self._program.parts.items() if p.step == name))
        self._empty |= {n for n in names if n not in self._rows or not self._rows[n].table.num_rows}

    def _build_frame(self, name: str) -> DataFrame:
        """A step as Spark sees it. One that was left out as empty has its columns: an outer join may ask for them."""
        if name not in self._rows:
            part = self._program.parts.get(name)
            step = name if part is None else part.step
            nothing = self._compiler.build_frame(self._program.steps[step]).limit(0)
            self._rows[step] = LocalBatch.from_frame(nothing)
            self._rows[name] = self._rows[step] if part is None else _extract_part(self._rows[step], part)
        return self._hand.create_frame(self._rows[name])

    def _compute_batch(self, op: Operator) -> LocalBatch:
        """The rows of an operator: by hand as far as that goes, and by Spark."""
        rows = self._by_hand(op)
        return rows if rows is not None else LocalBatch.from_frame(self._compiler.build_frame(self._lower_operator(op)))

    def _lower_operator(self, op: Operator) -> Operator:
        """The operator over what was computed by hand, unless Spark had better read so much itself."""
        rows = self._by_hand(op)
        if rows is None or (rows.table.num_rows > batches.FEW and not any(map(self._is_heavy, walk_operators(op)))):
            return map_children(op, self._lower_operator)
        name = self._names.setdefault(op, f"by hand {next(self._numbers)}")  # other steps name theirs meanwhile
        self._rows[name] = rows
        return StepReference(name, op.columns)

    def _is_heavy(self, op: Operator) -> bool:
        """Were many rows grouped or joined for it?"""
        match op:
            case Aggregation() | Join(kind=JoinKind.INNER | JoinKind.LEFT | JoinKind.RIGHT | JoinKind.FULL):
                below = [self._by_hand.find_result(child) for child in list_children(op)]
                return any(rows is not None and rows.table.num_rows > batches.FEW for rows in below)
        return False

    def _read_leaf(self, op: Operator) -> LocalBatch | None:
        """The rows of an operator that need not be computed: steps, small changes, and keys looked up in a content."""
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
        """The rows of an output's pieces that are no parts of steps; None if there are none."""
        left = [s for p in pieces if (s := remove_empty_steps(p, self._empty)) is not None]
        return self._compute_batch(left[0] if len(left) == 1 else Union(tuple(left))) if left else None

    def _write_output(self, channel: str, parts: list[StepSlice], rest: Future[LocalBatch | None]) -> Schema:
        rows = [_extract_part(self._rows[p.step], p) for p in parts if p.step not in self._empty]
        if (others := rest.result()) is not None:
            rows.append(others)
        target = self._outputs[channel]
        content = target.schema or self._infer_content_schema(channel)
        if not rows:
            return content
        wanted = batches.parse_ddl(str(target.to_physical_schema(content)))
        table = pa.concat_tables([self._shape_batch(r, wanted) for r in rows])
        batches.write_batch(table.columns, wanted, target)
        return content

    def _infer_content_schema(self, channel: str) -> Schema:
        """The schema of what was never written before. Its pieces may differ in their types."""
        pieces = [_project_part(p) if isinstance(p, StepSlice) else p for p in self._program.outputs[channel]]
        whole = pieces[0] if len(pieces) == 1 else Union(tuple(pieces))
        rows = self._by_hand(whole)
        return to_content_schema(
            rows.struct if rows is not None else self._compiler.build_frame(self._lower_operator(whole)).schema
        )

    def _shape_batch(self, rows: LocalBatch, wanted: StructType) -> pa.Table:
        """The rows in exactly these columns; Spark casts what is of another type."""
        arrow = batches.build_arrow_schema(wanted)
        found = [rows.table.column(name) for name in wanted.names]
        if not all(c.type == f.type or pa.types.is_null(c.type) for c, f in zip(found, arrow, strict=True)):
            casts = (build_column(f.name).cast(f.dataType).alias(f.name) for f in wanted.fields)
            found = rows.to_frame(self._spark).select(*casts).toArrow().columns
        return pa.table([c.cast(f.type) for c, f in zip(found, arrow, strict=True)], schema=arrow)


def _project_part(part: StepSlice) -> Operator:
    """The columns of a part, of all the step's rows."""
    items = tuple(NamedExpression(name, value(origin)) for name, origin in part.columns.items())
    return Projection(StepReference(part.step, tuple(dict.fromkeys(part.columns.values()))), items)


def _extract_part(held: LocalBatch, part: StepSlice) -> LocalBatch:
    rows = held.table
    for keep in part.keep:
        rows = rows.filter(rows.column(keep))
    names = part.columns.items()
    table = pa.table({name: rows.column(origin) for name, origin in names})
    return LocalBatch(table, StructType([StructField(name, held.struct[origin].dataType) for name, origin in names]))


class _StepFrames(dict[str, DataFrame]):
    """Steps as frames, each made when it is first asked for."""

    def __init__(self, make: Callable[[str], DataFrame]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, name: str) -> DataFrame:
        self[name] = self._make(name)
        return self[name]
