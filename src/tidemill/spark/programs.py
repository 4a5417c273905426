"""Programs on Spark: steps computed once, outputs written.

A refresh that touches little is dominated by the fixed price of Spark's jobs. So a step of a small change is
collected to the driver and given back as a local relation: what follows knows its size, joins by broadcast, and is
optimised away where it is empty. What is only picked from it needs no job, and small outputs are written without one.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import NullType, StructField, StructType

from tidemill.algebra.declare import CHANGE, NEW, OLD
from tidemill.algebra.fuse import Fused, Part, fused, inlined
from tidemill.algebra.operators import At, Join, JoinKind, Operator, Scan, Union, rebuilt, select
from tidemill.algebra.program import Output, Program, Query, Way
from tidemill.algebra.restrict import restrict
from tidemill.algebra.simplify import simplified
from tidemill.algebra.upserts import upserted
from tidemill.errors import RunFailed
from tidemill.model.change import DELETED, Append, Signed, Upsert
from tidemill.model.schema import Field, Schema
from tidemill.model.task import Refresh
from tidemill.model.view import Chain, Converted, Difference, Snapshot, View, blocks_of
from tidemill.ports import Target
from tidemill.spark import local
from tidemill.spark.merge import ORDER, Keys
from tidemill.spark.operators import Compiler, Sources
from tidemill.spark.reading import Locate, Reader
from tidemill.spark.session import spread, tagged
from tidemill.spark.types import column, from_struct
from tidemill.spark.writing import fresh

SMALL = 2_000_000
"""Rows of a change up to which its steps are collected (docs/benchmarks.md)."""

Views = Mapping[str, View]

_BASE, _SINCE = " (base)", " (since)"
"""Behind a channel's name: its base, and the deltas since."""


class Sessions(Protocol):
    """The engine's sessions: its own, and one for work on small changes."""

    @property
    def spark(self) -> SparkSession: ...
    @property
    def quick(self) -> SparkSession: ...


def refresh(
    sessions: Sessions, locate: Locate, code: Refresh, inputs: Views, outputs: Mapping[str, Target], tag: str
) -> Mapping[str, Schema]:
    """Run a declared query in one of its ways and write its outputs; returns the content schema of each."""
    query: Query = code.query
    if code.way in (Way.BATCH, Way.RECOMPUTE):
        channels = Channels(Reader(sessions.spark, locate), query, inputs)
        program = query.batch() if code.way == Way.BATCH else query.recompute()
        return Running(sessions.spark, channels, program, outputs).run()
    rows = _change_rows(query, inputs)
    small = rows <= SMALL and all(t.directory.startswith("/") for t in outputs.values())
    spark = sessions.quick if small else sessions.spark
    channels = Channels(Reader(spark, locate), query, inputs)
    program = query.incremental(channels.changed(), channels.held())
    if not small:
        return Running(spark, channels, program, outputs).run()
    shorter = fused(inlined(program.over(channels.unfolded), channels.at_hand))
    in_one = rows <= local.FEW
    spread(spark, over=1 if in_one else None)
    return RunningSmall(spark, channels, shorter, outputs, tag, in_one=in_one).run()


def _change_rows(query: Query, inputs: Views) -> int:
    views = [inputs[c + CHANGE] for c in query.channels if c + CHANGE in inputs]
    return sum(b.rows for view in views for b in blocks_of(view.chain if isinstance(view, Converted) else view))


class Channels:
    """The rows of a query's scans, from the views that the run was given."""

    def __init__(self, reader: Reader, query: Query, inputs: Views) -> None:
        self._reader = reader
        self._query = query
        self._inputs = dict(inputs)

    def held(self) -> set[str]:
        """The channels whose changes this run leaves for later."""
        return {c for c in self._query.channels if c + CHANGE not in self._inputs}

    def changed(self) -> set[str]:
        return {c for c in self._query.channels if c not in self.held() and not _empty(self._inputs[c + CHANGE])}

    def at_hand(self, scan: Scan) -> bool:
        """Are the rows there, small and in the form that is asked for?"""
        view = self._inputs[_argument(scan)]
        match view.chain if isinstance(view, Converted) else view:
            case Snapshot(deltas=deltas) as content:
                return (not deltas or scan.channel.endswith(_SINCE)) and self._reader.at_hand(content)
            case Chain(updates=Upsert()) as changes:
                return scan.at is At.TOUCHED and self._reader.at_hand(changes)
            case Chain(updates=Append() | Signed()) as changes:
                return scan.at is At.CHANGE and self._reader.at_hand(changes)
            case _:
                return False

    def merged(self, scan: Scan) -> bool:
        """Must blocks be merged for the rows?"""
        view = self._inputs[_argument(scan)]
        if not isinstance(view, Snapshot) or scan.channel.endswith(_SINCE):
            return False
        return any(d.files and not isinstance(d.updates, Append) for d in view.deltas)

    def unfolded(self, op: Operator) -> Operator:
        """The operator with contents that are kept as a base and small upserts as what they mean in operators.

        Then Spark plans reading them together with all else, and few keys are looked up before anything is merged.
        """
        match op:
            case Join(left=Scan() as scan, kind=JoinKind.SEMI, condition=None, safe=True):
                return restrict(self._unfolded(scan), self.unfolded(op.right), op.keys)
            case Scan():
                return self._unfolded(op)
        return rebuilt(op, self.unfolded)

    def _unfolded(self, scan: Scan) -> Operator:
        view = self._inputs[_argument(scan)]
        if not isinstance(view, Snapshot):
            return scan
        deltas = tuple(d for d in view.deltas if d.files)
        kinds = {(d.updates, d.schema) for d in deltas}
        updates = deltas[0].updates if len(kinds) == 1 else None
        if not isinstance(updates, Upsert) or not self._reader.at_hand(replace(view, base=None)):
            return scan
        names = view.schema.names
        base = Scan(scan.channel + _BASE, names, scan.at)
        since = Scan(scan.channel + _SINCE, (*names, DELETED, ORDER), scan.at)
        self._inputs |= {_argument(base): replace(view, deltas=()), _argument(since): replace(view, base=None)}
        return select(upserted(base, since, updates.key), scan.columns)

    def __call__(self, scan: Scan, only: Keys | None = None) -> DataFrame:
        match scan.at:
            case At.NEW | At.OLD if scan.channel.endswith(_SINCE):
                return self._reader.ordered(self._content(scan))
            case At.NEW | At.OLD:
                return self._reader.snapshot(self._content(scan), only)
            case At.CHANGE:
                return self._change(scan)
            case At.TOUCHED:
                after = self._content(Scan(scan.channel, scan.columns, At.NEW))
                return self._reader.touched(self._changes(scan), scan.keys, after)

    def _content(self, scan: Scan) -> Snapshot:
        found = self._inputs[_argument(scan)]
        assert isinstance(found, Snapshot)
        return found

    def _changes(self, scan: Scan) -> Chain | Difference | Converted:
        found = self._inputs[_argument(scan)]
        assert not isinstance(found, Snapshot)
        return found

    def _change(self, scan: Scan) -> DataFrame:
        view = self._changes(scan)
        if scan.append and isinstance(view, Difference):
            raise RunFailed(
                f"channel {scan.channel} only grows, but its content was replaced; refresh this table in batch"
            )
        before = self._inputs[scan.channel + OLD]
        assert isinstance(before, Snapshot)
        return self._reader.signed(view, before)


def _argument(scan: Scan) -> str:
    return scan.channel + {At.NEW: NEW, At.OLD: OLD}.get(scan.at, CHANGE)


def _empty(view: View) -> bool:
    if isinstance(view, Difference):
        return False
    return not any(b.files for b in blocks_of(view.chain if isinstance(view, Converted) else view))


class Running:
    """One run of a program on all the rows there are: steps are kept by Spark, or read back where they are written."""

    def __init__(self, spark: SparkSession, channels: Sources, program: Program, outputs: Mapping[str, Target]) -> None:
        self._spark = spark
        self._program = program
        self._outputs = outputs
        self._steps: dict[str, DataFrame] = {}
        self._compiler = Compiler(spark, channels, self._steps)
        self._kept: list[DataFrame] = []

    def run(self) -> Mapping[str, Schema]:
        try:
            schemas = {}
            for name, op in self._program.steps.items():
                if name in self._outputs:
                    schemas[name] = self._written_step(name, op)
                else:
                    self._steps[name] = self._compiler.frame(op).persist()
                    self._kept.append(self._steps[name])
            for output in self._program.outputs:
                if output.channel not in schemas:
                    schemas[output.channel] = self._written(output)
            return schemas
        finally:
            self._compiler.close()
            for frame in self._kept:
                frame.unpersist()

    def _written_step(self, name: str, op: Operator) -> Schema:
        """A step that is an output is written, and read back from its files."""
        target = self._outputs[name]
        schema = _written(self._compiler.frame(op), target)
        self._steps[name] = self._spark.read.schema(str(schema)).parquet(fresh(target.directory))
        return schema

    def _written(self, output: Output) -> Schema:
        target = self._outputs[output.channel]
        return _kept_schema(target) if output.rows is None else _written(self._compiler.frame(output.rows), target)


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
    """One run of a program on a small change: few steps, and the rows of all of them at hand."""

    def __init__(
        self,
        spark: SparkSession,
        channels: Sources,
        program: Fused,
        outputs: Mapping[str, Target],
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
        self._compiler = Compiler(spark, channels, _Steps(self._frame), in_one=in_one)
        self._scratch = Path(next(iter(outputs.values())).directory) / "_steps"

    def run(self) -> Mapping[str, Schema]:
        try:
            for name, op in self._program.steps.items():
                self._step(name, op)
            return self._written()
        finally:
            self._compiler.close()
            shutil.rmtree(self._scratch, ignore_errors=True)

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
        return self._given_back(self._rows[name])

    def _given_back(self, rows: _Rows) -> DataFrame:
        """Rows for Spark: a local relation, or a file if they are too many to be part of a plan."""
        untyped = any(isinstance(f.dataType, NullType) for f in rows.struct)  # no column of a file
        if rows.table.num_rows <= local.ROWS or untyped:
            return self._spark.createDataFrame(rows.table, rows.struct)
        self._scratch.mkdir(parents=True, exist_ok=True)
        path = self._scratch / f"{len(list(self._scratch.iterdir()))}.parquet"
        pq.write_table(rows.table, path, compression="lz4", row_group_size=local.FEW, write_page_checksum=True)
        return self._spark.read.schema(rows.struct).parquet(str(path))

    def _written(self) -> dict[str, Schema]:
        """Outputs side by side: each is mostly waiting for Spark to plan."""
        pieces = {channel: self._left(pieces) for channel, pieces in self._program.outputs.items()}
        with ThreadPoolExecutor(max_workers=len(pieces)) as pool:
            made = {channel: pool.submit(self._write, self._outputs[channel], p) for channel, p in pieces.items()}
            return {channel: work.result() for channel, work in made.items()}

    def _left(self, pieces: Iterable[Part | Operator]) -> list[Part | DataFrame]:
        """What is left of an output's pieces."""
        parts: list[Part | DataFrame] = [p for p in pieces if isinstance(p, Part) and p.step not in self._empty]
        rest = [s for p in pieces if not isinstance(p, Part) and (s := simplified(p, self._empty)) is not None]
        if not rest:
            return parts
        return [*parts, self._compiler.frame(rest[0] if len(rest) == 1 else Union(tuple(rest)))]

    def _write(self, target: Target, pieces: list[Part | DataFrame]) -> Schema:
        if not pieces:
            return _kept_schema(target)
        with tagged(self._spark, self._tag):
            rows = [self._rows[p.step].part(p) if isinstance(p, Part) else _Rows.of(p) for p in pieces]
            content = target.schema or _content_schema(rows[-1].struct)
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


def _kept_schema(target: Target) -> Schema:
    assert target.schema is not None, f"nothing was ever written to {target.channel}, yet it has not changed"
    return target.schema


def _written(frame: DataFrame, target: Target) -> Schema:
    content = target.schema or _content_schema(frame.schema)
    shaped = frame.select(*(column(f.name).cast(f.type).alias(f.name) for f in target.physical(content)))
    shaped.write.mode("errorifexists").parquet(fresh(target.directory))
    return content


def _content_schema(struct: StructType) -> Schema:
    return Schema(tuple(Field(f.name, f.type) for f in from_struct(struct)))
