"""Programs on Spark: steps computed once, outputs written."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from tidemill.algebra.declare import CHANGE, NEW
from tidemill.algebra.fuse import fused, inlined
from tidemill.algebra.operators import Operator, Ref, walk
from tidemill.algebra.program import COLLECTED, Output, Program, Query, Way
from tidemill.algebra.prune import pruned
from tidemill.model.block import Block
from tidemill.model.schema import Schema
from tidemill.model.task import Refresh
from tidemill.model.view import Converted, blocks_of
from tidemill.ports.engine import Target
from tidemill.spark.block_writer import fresh, kept_schema, save
from tidemill.spark.channels import Channels, Views
from tidemill.spark.local import batches
from tidemill.spark.operators import Compiler, Sources
from tidemill.spark.parquet import read_parquet
from tidemill.spark.query_sessions import EngineSessions, is_small, query_result, write_result
from tidemill.spark.session import as_kept, spread
from tidemill.spark.small_programs import RunningSmall
from tidemill.spark.types import column, content_schema
from tidemill.spark.view_reader import Locate, Reader

ANEW = 8_000
"""Rows of contents up to which the driver computes everything anew: what is made of them may be many more."""

DESCRIBED = 50
"""Plans in the description of one. Where each step reads others twice they would be twice as many with every step."""


def refresh(
    sessions: EngineSessions, locate: Locate, code: Refresh, inputs: Views, outputs: Mapping[str, Target], tag: str
) -> Mapping[str, Schema]:
    """Run a declared query in one of its ways and write its outputs; returns the content schema of each.

    Its whole result is what Spark makes of the user's text. Operators compute changes, and the state to go on from.
    """
    anew = code.way in (Way.BATCH, Way.RECOMPUTE)
    if not anew or code.text is None:
        return _computed(sessions, locate, code, inputs, outputs, tag)
    tables = {name: inputs[channel + NEW] for name, channel in code.text.tables.items()}
    with query_result(sessions, locate, code.text.query, tables, tag) as rows:
        made = {code.table: write_result(rows, outputs[code.table], small=is_small(tables))}
    states = {name: target for name, target in outputs.items() if name != code.table}
    return {**made, **_computed(sessions, locate, code, inputs, states, tag)} if states else made


def _computed(
    sessions: EngineSessions, locate: Locate, code: Refresh, inputs: Views, outputs: Mapping[str, Target], tag: str
) -> Mapping[str, Schema]:
    """Compute these outputs from the operators."""
    anew = code.way in (Way.BATCH, Way.RECOMPUTE)
    looked = _contents(inputs) if anew else _change(code.query, inputs)
    in_files = all(t.directory.startswith("/") for t in outputs.values())
    if in_files and batches.few(looked, ANEW if anew else COLLECTED):
        with suppress(batches.TooLarge):  # a few rows may become many
            return _small(sessions.quick, locate, code, inputs, outputs, tag, in_one=batches.few(looked, batches.FEW))
    channels = Channels(Reader(sessions.spark, locate), code.query, inputs)
    return Running(sessions.spark, channels, _program(code, channels).writing(outputs), outputs).run()


def _small(
    spark: SparkSession,
    locate: Locate,
    code: Refresh,
    inputs: Views,
    outputs: Mapping[str, Target],
    tag: str,
    *,
    in_one: bool,
) -> Mapping[str, Schema]:
    hand = batches.Hand(spark, Path(next(iter(outputs.values())).directory) / "_steps")
    channels = Channels(Reader(spark, locate, hand=hand), code.query, inputs)
    program = _program(code, channels).writing(outputs).over(channels.unfolded)
    shorter = fused(inlined(pruned(program), channels.at_hand))
    spread(spark, over=1 if in_one else None)
    return RunningSmall(spark, channels, shorter, outputs, hand, tag, in_one=in_one).run()


def _program(code: Refresh, channels: Channels) -> Program:
    query: Query = code.query
    match code.way:
        case Way.BATCH:
            return query.batch()
        case Way.RECOMPUTE:
            return query.recompute()
        case _:
            return query.incremental(channels.changed(), channels.held())


def _contents(inputs: Views) -> list[Block]:
    return [b for view in inputs.values() for b in blocks_of(view)]


def _change(query: Query, inputs: Views) -> list[Block]:
    views = [inputs[c + CHANGE] for c in query.channels if c + CHANGE in inputs]
    return [b for view in views for b in blocks_of(view.chain if isinstance(view, Converted) else view)]


class Running:
    """One run of a program on all the rows there are: steps are kept by Spark, or read back where they are written."""

    def __init__(self, spark: SparkSession, channels: Sources, program: Program, outputs: Mapping[str, Target]) -> None:
        self._spark = spark
        self._program = program
        self._outputs = outputs
        self._steps: dict[str, DataFrame] = {}
        self._compiler = Compiler(spark, channels, self._steps)
        self._kept: list[DataFrame] = []
        self._described: dict[str, int] = {}  # how many plans Spark describes where it describes that of a step

    def run(self) -> Mapping[str, Schema]:
        try:
            schemas = {}
            for name, op in self._program.steps.items():
                if name in self._outputs:
                    schemas[name] = self._written_step(name, op)
                else:
                    self._steps[name] = self._kept_step(name, op)
            for output in self._program.outputs:
                if output.channel not in schemas:
                    schemas[output.channel] = self._written(output)
            return schemas
        finally:
            self._compiler.close()
            for frame in self._kept:
                frame.unpersist()

    def _kept_step(self, name: str, op: Operator) -> DataFrame:
        """A step that is no output is kept by Spark, and freed in the end.

        If its description would be long it is kept without its plan. Then Spark frees it when nobody holds it, and
        cannot make it again: if a machine is lost with it the run fails, and has to start anew.
        """
        frame = self._compiler.frame(op)
        self._described[name] = 1 + sum(self._described.get(o.step, 0) for o in walk(op) if isinstance(o, Ref))
        if self._described[name] > DESCRIBED:
            self._described[name] = 0
            return frame.localCheckpoint(eager=False)
        self._kept.append(frame.persist())
        return as_kept(self._kept[-1])

    def _written_step(self, name: str, op: Operator) -> Schema:
        """A step that is an output is written, and read back from its files."""
        target = self._outputs[name]
        schema = _written(self._compiler.frame(op), target)
        self._steps[name] = read_parquet(self._spark, str(schema), [fresh(target.directory)])
        return schema

    def _written(self, output: Output) -> Schema:
        target = self._outputs[output.channel]
        return kept_schema(target) if output.rows is None else _written(self._compiler.frame(output.rows), target)


def _written(frame: DataFrame, target: Target) -> Schema:
    content = target.schema or content_schema(frame.schema)
    shaped = frame.select(*(column(f.name).cast(f.type).alias(f.name) for f in target.physical(content)))
    save(shaped, target)
    return content
