"""Programs for small changes.

A refresh that touches little is dominated by the fixed price of Spark's jobs. So a step of a small change is
collected to the driver and given back as a local relation: what follows knows its size, joins by broadcast, and is
optimised away where it is empty. What is only picked from it needs no job, and small outputs are written without one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructField, StructType

from tidemill.algebra.fuse import Fused, Part
from tidemill.algebra.operators import Operator, Project, Ref, Scan, Union, walk
from tidemill.algebra.simplify import simplified
from tidemill.model.schema import Schema
from tidemill.ports import Target
from tidemill.spark import local
from tidemill.spark.operators import Compiler, Sources
from tidemill.spark.session import tagged
from tidemill.spark.types import column, content_schema
from tidemill.spark.writing import fresh, kept_schema

T = TypeVar("T")

WORKERS = 4
"""Steps and outputs that go on side by side."""


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows at hand."""

    table: pa.Table
    struct: StructType

    @classmethod
    def of(cls, frame: DataFrame) -> _Rows:
        return cls(frame.toArrow(), frame.schema)

    def part(self, part: Part) -> _Rows:
        rows = self.table
        for keep in part.keep:
            rows = rows.filter(rows.column(keep))
        names = part.columns.items()
        table = pa.table({name: rows.column(origin) for name, origin in names})
        return _Rows(table, StructType([StructField(name, self.struct[origin].dataType) for name, origin in names]))


class RunningSmall:
    """One run of a program on a small change: few steps, and the rows of all of them at hand.

    A step begins as soon as those that it reads are done: much of what it takes is waiting for Spark to plan.
    """

    def __init__(
        self,
        spark: SparkSession,
        channels: Sources,
        program: Fused,
        outputs: Mapping[str, Target],
        hand: local.Hand,
        tag: str,
        *,
        in_one: bool = True,
    ) -> None:
        """`in_one`: the rows of a step are few enough for one task."""
        self._spark = spark
        self._program = program
        self._outputs = outputs
        self._tag = tag
        self._rows: dict[str, _Rows] = {}
        self._empty: set[str] = set()
        self._channels = channels
        self._hand = hand
        self._compiler = Compiler(spark, channels, _Steps(self._frame), in_one=in_one, collected=self._collected)

    def run(self) -> Mapping[str, Schema]:
        try:
            with ThreadPoolExecutor(WORKERS) as pool:
                return self._run(pool)
        finally:
            self._compiler.close()
            self._hand.close()

    def _run(self, pool: ThreadPoolExecutor) -> Mapping[str, Schema]:
        """Whatever waits for something was submitted after it, so that the pool never waits for itself."""
        done: dict[str, Future[None]] = {}

        def after(needed: Iterable[str], work: Callable[[], T]) -> Future[T]:
            return pool.submit(self._after, [done[step] for step in needed], work)

        for name, op in self._program.steps.items():
            done[name] = after(self._needed(op), partial(self._step, name, op))
        written: dict[str, Future[Schema]] = {}
        for channel, pieces in self._program.outputs.items():
            parts = [p for p in pieces if isinstance(p, Part)]
            others = [p for p in pieces if not isinstance(p, Part)]
            rest = after((step for op in others for step in self._needed(op)), partial(self._rest, others))
            steps = [p.step for p in parts]
            written[channel] = after(steps, partial(self._write, self._outputs[channel], parts, rest))
        for step in done.values():
            step.result()
        return {channel: work.result() for channel, work in written.items()}

    def _after(self, needed: list[Future[None]], work: Callable[[], T]) -> T:
        for step in needed:
            step.result()
        with tagged(self._spark, self._tag):
            return work()

    def _needed(self, op: Operator) -> set[str]:
        """The steps that an operator reads."""
        refs = (o.step for o in walk(op) if isinstance(o, Ref))
        return {self._program.parts[r].step if r in self._program.parts else r for r in refs}

    def _step(self, name: str, op: Operator) -> None:
        rest = simplified(op, self._empty)
        if rest is not None:
            self._rows[name] = _Rows.of(self._compiler.frame(rest))
            for part, definition in self._program.parts.items():
                if definition.step == name:
                    self._rows[part] = self._rows[name].part(definition)
        names = (name, *(n for n, p in self._program.parts.items() if p.step == name))
        self._empty |= {n for n in names if n not in self._rows or not self._rows[n].table.num_rows}

    def _frame(self, name: str) -> DataFrame:
        """A step as Spark sees it. One that was left out as empty has its columns: an outer join may ask for them."""
        if name not in self._rows:
            part = self._program.parts.get(name)
            step = name if part is None else part.step
            nothing = self._compiler.frame(self._program.steps[step]).limit(0)
            self._rows[step] = _Rows.of(nothing)
            self._rows[name] = self._rows[step] if part is None else self._rows[step].part(part)
        rows = self._rows[name]
        return self._hand.frame(rows.table, rows.struct)

    def _collected(self, op: Operator) -> pa.Table:
        """The rows of an operator: picked from what is at hand if that is all there is to it, or computed by Spark."""
        picked = self._picked(op, op.columns)
        return picked if picked is not None else self._compiler.frame(op).toArrow()

    def _picked(self, op: Operator, names: Collection[str]) -> pa.Table | None:
        """Some columns of an operator's rows, if they are at hand as they are."""
        match op:
            case Ref() if op.step in self._rows:
                return self._rows[op.step].table.select(list(names))
            case Scan():
                return self._channels.here(op, tuple(names))
            case Union():
                parts = [p for child in op.children if (p := self._picked(child, names)) is not None]
                known = len(parts) == len(op.children) and all(p.schema == parts[0].schema for p in parts)
                return pa.concat_tables(parts) if known else None
            case Project():
                origins = {i.name: i.value.column for i in op.items if i.name in names and i.value.column is not None}
                known = len(origins) == len(names)
                rows = self._picked(op.child, dict.fromkeys(origins.values())) if known else None
                return rows and pa.table({n: rows.column(origins[n]) for n in names})
        return None

    def _rest(self, pieces: list[Operator]) -> _Rows | None:
        """The rows of an output's pieces that are no parts of steps; None if there are none."""
        left = [s for p in pieces if (s := simplified(p, self._empty)) is not None]
        return _Rows.of(self._compiler.frame(left[0] if len(left) == 1 else Union(tuple(left)))) if left else None

    def _write(self, target: Target, parts: list[Part], rest: Future[_Rows | None]) -> Schema:
        rows = [self._rows[p.step].part(p) for p in parts if p.step not in self._empty]
        if (others := rest.result()) is not None:
            rows.append(others)
        if not rows:
            return kept_schema(target)
        content = target.schema or content_schema(rows[-1].struct)
        wanted = local.schema_of(str(target.physical(content)))
        table = pa.concat_tables([self._shaped(r, wanted) for r in rows])
        local.write(table.columns, wanted, Path(fresh(target.directory)))
        return content

    def _shaped(self, rows: _Rows, wanted: StructType) -> pa.Table:
        """The rows in exactly these columns; Spark casts what is of another type."""
        arrow = local.arrow_schema(wanted)
        found = [rows.table.column(name) for name in wanted.names]
        if not all(c.type == f.type or pa.types.is_null(c.type) for c, f in zip(found, arrow, strict=True)):
            frame = self._spark.createDataFrame(rows.table, rows.struct)
            cast = frame.select(*(column(f.name).cast(f.dataType).alias(f.name) for f in wanted.fields)).toArrow()
            found = cast.columns
        return pa.table([c.cast(f.type) for c, f in zip(found, arrow, strict=True)], schema=arrow)


class _Steps(dict[str, DataFrame]):
    """Steps as frames, each made when it is first asked for."""

    def __init__(self, make: Callable[[str], DataFrame]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, name: str) -> DataFrame:
        self[name] = self._make(name)
        return self[name]
