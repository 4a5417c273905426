"""Programs on Spark: steps computed once, outputs written.

A refresh that touches little is dominated by the fixed price of Spark's jobs. So a step of a small change is
collected to the driver and given back as a local relation: what follows knows its size, joins by broadcast, and is
optimised away where it is empty. Small outputs are written without a job.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from tidemill.algebra.declare import CHANGE, NEW, OLD
from tidemill.algebra.operators import At, Scan
from tidemill.algebra.program import Output, Program, Query, Way
from tidemill.errors import RunFailed
from tidemill.model.block import Kind
from tidemill.model.schema import Field, Schema
from tidemill.model.task import Refresh
from tidemill.model.view import Chain, Difference, Snapshot, View, blocks_of
from tidemill.ports import Target
from tidemill.spark.merge import Keys
from tidemill.spark.operators import Compiler
from tidemill.spark.reading import Reader
from tidemill.spark.types import column, schema_of
from tidemill.spark.writing import fresh

SMALL = 400_000
"""Rows of a change up to which its steps are collected (docs/benchmarks.md)."""

Views = Mapping[str, View]


def refresh(
    spark: SparkSession, reader: Reader, code: Refresh, inputs: Views, outputs: Mapping[str, Target]
) -> Mapping[str, Schema]:
    """Run a declared query in one of its ways and write its outputs; returns the content schema of each."""
    query: Query = code.query
    channels = Channels(reader, query, inputs)
    if code.way == Way.BATCH:
        return Running(spark, channels, query.batch(), outputs, small=False).run()
    program = query.incremental(channels.changed(), channels.held())
    return Running(spark, channels, program, outputs, small=channels.change_rows() <= SMALL).run()


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

    def change_rows(self) -> int:
        views = [self._inputs[c + CHANGE] for c in self._query.channels if c not in self.held()]
        return sum(b.rows for view in views for b in blocks_of(getattr(view, "chain", view)))

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

    def _changes(self, scan: Scan) -> Chain | Difference:
        found = self._inputs[scan.channel + CHANGE]
        assert not isinstance(found, Snapshot)
        return found  # type: ignore[return-value]

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
    return not isinstance(view, Difference) and not any(b.files for b in blocks_of(getattr(view, "chain", view)))


class Running:
    """One run of a program."""

    def __init__(
        self, spark: SparkSession, channels: Channels, program: Program, outputs: Mapping[str, Target], *, small: bool
    ) -> None:
        self._spark = spark
        self._program = program
        self._outputs = outputs
        self._small = small
        self._steps: dict[str, DataFrame] = {}
        self._compiler = Compiler(spark, channels, self._steps)
        self._kept: list[DataFrame] = []
        self._schemas: dict[str, Schema] = {}

    def run(self) -> Mapping[str, Schema]:
        try:
            for name, op in self._program.steps.items():
                self._step(name, self._compiler.frame(op))
            for output in self._program.outputs:
                if output.channel not in self._schemas:
                    self._schemas[output.channel] = self._write(output)
            return self._schemas
        finally:
            self._compiler.close()
            for frame in self._kept:
                frame.unpersist()

    def _step(self, name: str, frame: DataFrame) -> None:
        """A step that is an output is read back from its files; any other is kept, small ones here."""
        target = self._outputs.get(name)
        if target is not None:
            self._schemas[name] = _written(frame, target, small=False)
            self._steps[name] = self._spark.read.schema(str(self._schemas[name])).parquet(fresh(target.directory))
        elif self._small:
            self._steps[name] = self._spark.createDataFrame(frame.toArrow(), frame.schema)
        else:
            self._steps[name] = frame.persist()
            self._kept.append(self._steps[name])

    def _write(self, output: Output) -> Schema:
        target = self._outputs[output.channel]
        if output.rows is None:
            assert target.schema is not None
            return target.schema
        return _written(self._compiler.frame(output.rows), target, small=self._small)


def _written(frame: DataFrame, target: Target, *, small: bool) -> Schema:
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
