"""Programs on Spark: steps computed once, outputs written.

A refresh that touches little is dominated by the fixed price of Spark's jobs. So a step of a small change is
collected to the driver and given back as a local relation: what follows knows its size, joins by broadcast, and is
optimised away where it is empty. Small outputs are written without a job.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Protocol

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from tidemill.algebra.declare import CHANGE, NEW, OLD
from tidemill.algebra.operators import At, Operator, Scan
from tidemill.algebra.program import Output, Program, Query, Way
from tidemill.algebra.simplify import simplified
from tidemill.errors import RunFailed
from tidemill.model.block import Kind
from tidemill.model.schema import Field, Schema
from tidemill.model.task import Refresh
from tidemill.model.view import Chain, Converted, Difference, Snapshot, View, blocks_of
from tidemill.ports import Target
from tidemill.spark.merge import Keys
from tidemill.spark.operators import Compiler
from tidemill.spark.reading import Locate, Reader
from tidemill.spark.session import tagged
from tidemill.spark.types import column, schema_of
from tidemill.spark.writing import fresh

SMALL = 400_000
"""Rows of a change up to which its steps are collected (docs/benchmarks.md)."""

Views = Mapping[str, View]


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
    if code.way == Way.BATCH:
        channels = Channels(Reader(sessions.spark, locate), query, inputs)
        return Running(sessions.spark, channels, query.batch(), outputs, tag).run()
    small = _change_rows(query, inputs) <= SMALL
    spark = sessions.quick if small else sessions.spark
    channels = Channels(Reader(spark, locate), query, inputs)
    program = query.incremental(channels.changed(), channels.held())
    return Running(spark, channels, program, outputs, tag, small=small).run()


def _change_rows(query: Query, inputs: Views) -> int:
    views = [inputs[c + CHANGE] for c in query.channels if c + CHANGE in inputs]
    return sum(b.rows for view in views for b in blocks_of(view.chain if isinstance(view, Converted) else view))


class Channels:
    """The rows of a query's scans, from the views that the run was given."""

    def __init__(self, reader: Reader, query: Query, inputs: Views) -> None:
        self._reader = reader
        self._query = query
        self._inputs = inputs

    def held(self) -> set[str]:
        """The channels whose changes this run leaves for later."""
        return {c for c in self._query.channels if c + CHANGE not in self._inputs}

    def changed(self) -> set[str]:
        return {c for c in self._query.channels if c not in self.held() and not _empty(self._inputs[c + CHANGE])}

    def __call__(self, scan: Scan, only: Keys | None = None) -> DataFrame:
        match scan.at:
            case At.NEW | At.OLD:
                return self._reader.snapshot(self._content(scan), only)
            case At.CHANGE:
                return self._change(scan)
            case At.TOUCHED:
                after = self._content(Scan(scan.channel, scan.columns, At.NEW))
                return self._reader.touched(self._changes(scan), scan.keys, after)

    def _content(self, scan: Scan) -> Snapshot:
        found = self._inputs[scan.channel + (NEW if scan.at is At.NEW else OLD)]
        assert isinstance(found, Snapshot)
        return found

    def _changes(self, scan: Scan) -> Chain | Difference | Converted:
        found = self._inputs[scan.channel + CHANGE]
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


def _empty(view: View) -> bool:
    if isinstance(view, Difference):
        return False
    return not any(b.files for b in blocks_of(view.chain if isinstance(view, Converted) else view))


class Running:
    """One run of a program."""

    def __init__(
        self,
        spark: SparkSession,
        channels: Channels,
        program: Program,
        outputs: Mapping[str, Target],
        tag: str,
        *,
        small: bool = False,
    ) -> None:
        self._spark = spark
        self._program = program
        self._outputs = outputs
        self._tag = tag
        self._small = small
        self._steps = _Steps(self._nothing)
        self._empty: set[str] = set()
        self._compiler = Compiler(spark, channels, self._steps)
        self._kept: list[DataFrame] = []

    def run(self) -> Mapping[str, Schema]:
        try:
            schemas = {}
            for name, op in self._program.steps.items():
                if name in self._outputs:
                    schemas[name] = self._written_step(name, op)
                else:
                    self._step(name, op)
            return schemas | self._written(o for o in self._program.outputs if o.channel not in schemas)
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

    def _step(self, name: str, op: Operator) -> None:
        """Any other step is kept: one of a small change here, so that what follows knows how small it is."""
        if not self._small:
            self._steps[name] = self._compiler.frame(op).persist()
            self._kept.append(self._steps[name])
            return
        rest = simplified(op, self._empty)
        frame = None if rest is None else self._compiler.frame(rest)
        rows = None if frame is None else frame.toArrow()
        if frame is None or rows is None or not rows.num_rows:
            self._empty.add(name)
        if frame is not None and rows is not None:
            self._steps[name] = self._spark.createDataFrame(rows, frame.schema)

    def _nothing(self, name: str) -> DataFrame:
        """The columns of a step that was left out as empty; an outer join may still ask for them."""
        return self._spark.createDataFrame([], self._compiler.frame(self._program.steps[name]).schema)

    def _written(self, outputs: Iterable[Output]) -> dict[str, Schema]:
        """Small outputs side by side: each is mostly waiting for Spark to plan."""
        wanted = [(o, self._outputs[o.channel], self._frame(o)) for o in outputs]
        if not self._small:
            return {o.channel: _kept_schema(t) if f is None else _written(f, t) for o, t, f in wanted}
        with ThreadPoolExecutor(max_workers=max(1, len(wanted))) as pool:
            made = {o.channel: pool.submit(self._write_small, t, f) for o, t, f in wanted}
            return {channel: work.result() for channel, work in made.items()}

    def _frame(self, output: Output) -> DataFrame | None:
        rows = output.rows and simplified(output.rows, self._empty)
        return None if rows is None else self._compiler.frame(rows)

    def _write_small(self, target: Target, frame: DataFrame | None) -> Schema:
        if frame is None:
            return _kept_schema(target)
        with tagged(self._spark, self._tag):
            return _written(frame, target, small=True)


class _Steps(dict[str, DataFrame]):
    """The steps computed so far; one that was left out is made when it is asked for."""

    def __init__(self, make: Callable[[str], DataFrame]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, name: str) -> DataFrame:
        self[name] = self._make(name)
        return self[name]


def _kept_schema(target: Target) -> Schema:
    assert target.schema is not None, f"nothing was ever written to {target.channel}, yet it has not changed"
    return target.schema


def _written(frame: DataFrame, target: Target, *, small: bool = False) -> Schema:
    content = target.schema or _content_schema(frame)
    physical = content if target.kind is Kind.BASE else target.updates.delta_schema(content)
    shaped = frame.select(*(column(f.name).cast(f.type).alias(f.name) for f in physical))
    if small and target.directory.startswith("/"):
        _write_here(shaped.toArrow(), Path(fresh(target.directory)))
    else:
        shaped.write.mode("errorifexists").parquet(fresh(target.directory))
    return content


def _write_here(table: pa.Table, directory: Path) -> None:
    if table.num_rows:
        directory.mkdir(parents=True)
        pq.write_table(table, directory / "part-0.parquet", compression="zstd", write_page_checksum=True)


def _content_schema(frame: DataFrame) -> Schema:
    return Schema(tuple(Field(f.name, f.type) for f in schema_of(frame)))
