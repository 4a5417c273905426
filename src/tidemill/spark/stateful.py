"""Stateful tasks: they work on Arrow tables on the driver, and their state is stored in channels.

An operator's in-memory state is a cache that is validated, like the mapped files of keyed state: it is reused only if
it is at exactly the committed positions of its state channels. A reservation's number is never reused, so the remains
of an uncommitted or lost attempt never match.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from uuid import uuid4

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F

from tidemill.encoding.arrow_types import to_arrow_schema
from tidemill.errors import BadInput
from tidemill.model.schema import Schema
from tidemill.model.stateful import KeyedTaskSpec, OperatorTaskSpec, Stateful, WindowTaskSpec
from tidemill.model.task import ReadMode, Task
from tidemill.model.view import Snapshot, View
from tidemill.model.wave_steps import WaveBarrierSpec, WaveEndSpec, WaveStartSpec, WaveTaskSpec
from tidemill.ports.engine import WriteTarget
from tidemill.processes.scratch import open_scratch
from tidemill.spark import keyed
from tidemill.spark.arrow import ArrowBlockIO, Session
from tidemill.spark.batches import create_frame
from tidemill.spark.local_work import LocalWork
from tidemill.stream.lineage_tags import WaveBarrierOperator, WaveEndOperator, WaveStartOperator
from tidemill.stream.operator import InputBlock, OperatorBatch, OperatorResult, StatefulOperator
from tidemill.stream.windows.rows import Marks
from tidemill.stream.windows.task import WindowOperator

Inputs = Mapping[str, View]
Targets = Mapping[str, WriteTarget]
Version = tuple[int, ...]
"""The positions of a task's state channels."""


class StatefulTaskRunner:
    """Runs stateful tasks for one engine, and caches their operators for the next run."""

    def __init__(self, work: LocalWork) -> None:
        self._work = work
        self._operators: dict[str, tuple[Version, StatefulOperator]] = {}
        self._tables: dict[tuple[str, str], tuple[View, pa.Table]] = {}

    def run(self, session: Session, task: Task, inputs: Inputs, outputs: Targets, now: int) -> dict[str, Schema]:
        arrow = ArrowBlockIO(session, self._work)
        run, code = _TaskRun(session, arrow, task, inputs, outputs), task.variant.code
        assert isinstance(code, Stateful)
        result = self._run_keyed(run, code) if isinstance(code, KeyedTaskSpec) else self._run_operator(run, code, now)
        rows = {**result.outputs, **result.deltas}
        _check_outputs(rows, outputs)
        return {name: arrow.write_delta(rows.get(name), target) for name, target in outputs.items()}

    def stop(self) -> None:
        self._operators.clear()
        self._tables.clear()
        if "_cache" in vars(self):
            shutil.rmtree(self._cache, ignore_errors=True)

    @cached_property
    def _cache(self) -> Path:
        """Of the state of keyed tasks; on executors of other machines, the directory has the same name."""
        return open_scratch().path / f"state-{uuid4().hex}"

    def _run_keyed(self, run: _TaskRun, code: KeyedTaskSpec) -> OperatorResult:
        argument, pieces = next(iter(run.read_new_rows().items()))
        tables = {name: keyed.to_columns(t) for name, t in self._read_tables(run).items()}
        function = keyed.KeyedFunction(code.call, argument, {**tables, **run.task.parameters})
        events = pa.concat_tables([piece.rows for piece in pieces])
        target = run.outputs[KeyedTaskSpec.STATE]
        layout, cache = keyed.build_layout(code), str(self._cache)
        state = keyed.KeyedStateLocation(layout, target.channel, target.state_seq, target.seq, cache)
        if code.partitions == 1 or events.num_rows < keyed.MIN_ROWS_FOR_WORKERS:
            read_blocks = partial(run.read_state_blocks, KeyedTaskSpec.STATE)
            return keyed.run_batch(state, state.build_partition(0, 1), function, events, read_blocks)
        paths = run.arrow.list_paths(run.get_state_view(KeyedTaskSpec.STATE))
        return _combine_results(keyed.run_in_workers(run.session(), state, function, events, paths, code.partitions))

    def _run_operator(
        self, run: _TaskRun, code: OperatorTaskSpec | WindowTaskSpec | WaveTaskSpec, now: int
    ) -> OperatorResult:
        states = [run.outputs[name] for name in code.states]
        cache_key = ", ".join(target.channel for target in states) or run.task.name
        # The operator of the last run is removed, so a failed run leaves none.
        version, operator = self._operators.pop(cache_key, ((), None))
        if operator is None or version != tuple(target.state_seq for target in states):
            operator = _build_operator(run, code)
            operator.restore({name: run.read_state_blocks(name) for name in code.states})
        result = operator.run(OperatorBatch(run.read_new_rows(), self._read_tables(run), now))
        self._operators[cache_key] = (tuple(target.seq for target in states), operator)
        return result

    def _read_tables(self, run: _TaskRun) -> dict[str, pa.Table]:
        """Full tables, read again only if they have changed."""
        reads = [r for r in run.task.reads if r.mode is ReadMode.ALL and r.port not in run.task.state_ports]
        tables = {}
        for read in reads:
            cache_key, view = (run.task.name, read.port), run.inputs[read.argument]
            cached = self._tables.get(cache_key)
            if cached is None or cached[0] != view:
                cached = self._tables[cache_key] = (view, run.arrow.read_table(view))
            tables[read.argument] = cached[1]
        return tables


@dataclass(frozen=True, slots=True)
class _TaskRun:
    """One run of a task. The views of its state are read only if needed."""

    session: Session
    arrow: ArrowBlockIO
    task: Task
    inputs: Inputs
    outputs: Targets

    def read_new_rows(self) -> dict[str, list[InputBlock]]:
        names = (r.argument for r in self.task.reads if r.mode is ReadMode.NEW)
        return {name: self.arrow.read_new_rows(self.inputs[name]) for name in names}

    def get_state_view(self, name: str) -> Snapshot:
        view = self.inputs[name]
        assert isinstance(view, Snapshot), "state is read as a snapshot"
        return view

    def read_state_blocks(self, name: str) -> list[pa.Table]:
        return self.arrow.read_blocks(self.get_state_view(name))


def _build_operator(run: _TaskRun, code: OperatorTaskSpec | WindowTaskSpec | WaveTaskSpec) -> StatefulOperator:
    match code:
        case WindowTaskSpec():
            return WindowOperator(code, to_arrow_schema(code.schema), partial(_evaluate_conditions, run.session))
        case WaveStartSpec():
            return WaveStartOperator(to_arrow_schema(code.schema))
        case WaveEndSpec():
            return WaveEndOperator()
        case WaveBarrierSpec():
            return WaveBarrierOperator(code)
    operator: StatefulOperator = code.factory(**run.task.parameters)
    return operator


def _evaluate_conditions(session: Session, rows: pa.Table, conditions: Sequence[str]) -> list[Marks]:
    """For each condition, the rows for which it is true (not NULL). Row numbers preserve the order through Spark."""
    if not rows.num_rows:
        return [np.zeros(0, bool)] * len(conditions)
    numbered = create_frame(session(), rows.append_column("_number", pa.array(np.arange(rows.num_rows))))
    marks = [F.coalesce(F.expr(text), F.lit(False)).alias(str(n)) for n, text in enumerate(conditions)]
    results = numbered.select("_number", *marks).orderBy("_number").toArrow()
    return [results[str(n)].to_numpy() for n in range(len(conditions))]


def _check_outputs(rows: Mapping[str, pa.Table], outputs: Targets) -> None:
    stray = sorted({*rows} - {*outputs})
    if stray:
        known = ", ".join(sorted(outputs))
        raise BadInput(f"expected rows for {known}; the task also returned rows for {stray[0]!r}; declare it in writes")


def _combine_results(parts: Sequence[OperatorResult]) -> OperatorResult:
    def stack_tables(tables: Sequence[Mapping[str, pa.Table]]) -> dict[str, pa.Table]:
        names = dict.fromkeys(name for t in tables for name in t)
        return {name: pa.concat_tables([t[name] for t in tables if name in t]) for name in names}

    return OperatorResult(stack_tables([p.outputs for p in parts]), stack_tables([p.deltas for p in parts]))
