"""Tasks with state: they work on arrays next to the driver, and what they keep lies in channels.

What an operator has in memory is a guess that is checked, as the mapped files of keyed state are: it is used again only
if it was left at the very positions of its state channels that are committed now. A slot's number is never given
twice, so whatever an attempt left that was not committed, or was lost, is never taken for anything.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from uuid import uuid4

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F

from tidemill.encoding.arrow_types import to_arrow_schema
from tidemill.errors import BadInput
from tidemill.model.schema import Schema
from tidemill.model.stateful import KeyedTaskSpec, OperatorTaskSpec, Stateful, WindowTaskSpec
from tidemill.model.task import ReadMode, Task, TaskInput
from tidemill.model.view import Snapshot, View
from tidemill.model.wave_steps import WaveBarrierSpec, Waved, WaveEndSpec, WaveStartSpec
from tidemill.ports.engine import WriteTarget
from tidemill.spark import keyed
from tidemill.spark.arrow import ArrowBlockIO, Session
from tidemill.spark.local.batches import create_frame
from tidemill.spark.view_reader import Locate
from tidemill.stream.lineage_tags import WaveBarrierOperator, WaveEndOperator, WaveStartOperator
from tidemill.stream.operator import InputBlock, OperatorBatch, OperatorResult, StatefulOperator
from tidemill.stream.windows.rows import Marks
from tidemill.stream.windows.task import WindowOperator

Inputs = Mapping[str, View]
Targets = Mapping[str, WriteTarget]
Version = tuple[int, ...]
"""The positions of a task's state channels."""


class StatefulTaskRunner:
    """Runs tasks with state for one engine, and holds what they left for the next run."""

    def __init__(self, locate: Locate) -> None:
        self._locate = locate
        self._cache = Path(tempfile.gettempdir()) / f"tidemill-state-{uuid4().hex}"
        self._left: dict[str, tuple[Version, StatefulOperator]] = {}
        self._whole: dict[tuple[str, str], tuple[View, pa.Table]] = {}

    def run(self, session: Session, task: Task, inputs: Inputs, outputs: Targets, now: int) -> dict[str, Schema]:
        arrow = ArrowBlockIO(session, self._locate)
        made = self._run_task(_TaskRun(session, arrow, task, inputs, outputs), now)
        rows = {**made.outputs, **made.deltas}
        _check_outputs(rows, outputs)
        return {name: arrow.write_delta(rows.get(name), target) for name, target in outputs.items()}

    def stop(self) -> None:
        self._left.clear()
        self._whole.clear()
        shutil.rmtree(self._cache, ignore_errors=True)

    def _run_task(self, run: _TaskRun, now: int) -> OperatorResult:
        code = run.task.variant.code
        assert isinstance(code, Stateful)
        return self._run_keyed(run, code) if isinstance(code, KeyedTaskSpec) else self._run_operator(run, code, now)

    def _run_keyed(self, run: _TaskRun, code: KeyedTaskSpec) -> OperatorResult:
        argument, pieces = next(iter(run.read_new_rows().items()))
        tables = {name: keyed.to_columns(t) for name, t in self._read_tables(run).items()}
        function = keyed.KeyedFunction(code.call, argument, {**tables, **run.task.parameters})
        events = pa.concat_tables([piece.rows for piece in pieces])
        target = run.outputs[KeyedTaskSpec.STATE]
        state = keyed.KeyedStateLocation(
            keyed.build_layout(code), target.channel, target.before, target.seq, str(self._cache)
        )
        if code.partitions == 1 or events.num_rows < keyed.IN_WORKERS_FROM:
            return keyed.run_in_driver(state, function, events, partial(run.read_state_blocks, KeyedTaskSpec.STATE))
        paths = run.arrow.list_paths(run.get_state_view(KeyedTaskSpec.STATE))
        return _combine_results(keyed.run_in_workers(run.session(), state, function, events, paths, code.partitions))

    def _run_operator(self, run: _TaskRun, code: OperatorTaskSpec | WindowTaskSpec | Waved, now: int) -> OperatorResult:
        states = [run.outputs[name] for name in code.states]
        place = ", ".join(target.channel for target in states) or run.task.name
        operator = self._take_operator(place, tuple(target.before for target in states))
        if operator is None:
            operator = _build_operator(run, code)
            operator.restore({name: run.read_state_blocks(name) for name in code.states})
        made = operator.run(OperatorBatch(run.read_new_rows(), self._read_tables(run), now))
        self._left[place] = (tuple(target.seq for target in states), operator)
        return made

    def _take_operator(self, place: str, version: Version) -> StatefulOperator | None:
        """What the last run left, if it is at this version. Whoever fails while using it leaves nothing."""
        left = self._left.pop(place, None)
        return left[1] if left is not None and left[0] == version else None

    def _read_tables(self, run: _TaskRun) -> dict[str, pa.Table]:
        """Whole tables, read again only if they have changed."""
        reads = [r for r in run.task.reads if r.mode is ReadMode.ALL and r.port not in run.task.state_ports]
        return {r.argument: self._read_table(run, r) for r in reads}

    def _read_table(self, run: _TaskRun, read: TaskInput) -> pa.Table:
        place, view = (run.task.name, read.port), run.inputs[read.argument]
        known = self._whole.get(place)
        if known is None or known[0] != view:
            known = self._whole[place] = (view, run.arrow.read_table(view))
        return known[1]


@dataclass(frozen=True, slots=True)
class _TaskRun:
    """One run of a task. The views of its state are made only if they are asked for."""

    session: Session
    arrow: ArrowBlockIO
    task: Task
    inputs: Inputs
    outputs: Targets

    def read_new_rows(self) -> dict[str, list[InputBlock]]:
        return {
            r.argument: self.arrow.read_new_rows(self.inputs[r.argument])
            for r in self.task.reads
            if r.mode is ReadMode.NEW
        }

    def get_state_view(self, name: str) -> Snapshot:
        view = self.inputs[name]
        assert isinstance(view, Snapshot), "state is read as a whole"
        return view

    def read_state_blocks(self, name: str) -> list[pa.Table]:
        return self.arrow.read_blocks(self.get_state_view(name))


def _build_operator(run: _TaskRun, code: OperatorTaskSpec | WindowTaskSpec | Waved) -> StatefulOperator:
    match code:
        case WindowTaskSpec():
            return WindowOperator(code, to_arrow_schema(code.schema), partial(_evaluate_conditions, run.session))
        case WaveStartSpec():
            return WaveStartOperator(to_arrow_schema(code.schema))
        case WaveEndSpec():
            return WaveEndOperator()
        case WaveBarrierSpec():
            return WaveBarrierOperator(code)
    operator: StatefulOperator = code.make(**run.task.parameters)
    return operator


def _evaluate_conditions(session: Session, rows: pa.Table, conditions: Sequence[str]) -> list[Marks]:
    """For which rows each condition holds; of NULL it does not. Numbers keep the order, whatever Spark does."""
    if not rows.num_rows:
        return [np.zeros(0, bool)] * len(conditions)
    numbered = create_frame(session(), rows.append_column("_number", pa.array(np.arange(rows.num_rows))))
    marks = [F.coalesce(F.expr(text), F.lit(False)).alias(str(n)) for n, text in enumerate(conditions)]
    found = numbered.select("_number", *marks).orderBy("_number").toArrow()
    return [found[str(n)].to_numpy() for n in range(len(conditions))]


def _check_outputs(rows: Mapping[str, pa.Table], outputs: Targets) -> None:
    stray = sorted({*rows} - {*outputs})
    if stray:
        known = ", ".join(sorted(outputs))
        raise BadInput(f"expected rows for {known}; the task gave some for {stray[0]!r} as well; declare it in writes")


def _combine_results(parts: Sequence[OperatorResult]) -> OperatorResult:
    def stack_tables(tables: Sequence[Mapping[str, pa.Table]]) -> dict[str, pa.Table]:
        names = dict.fromkeys(name for t in tables for name in t)
        return {name: pa.concat_tables([t[name] for t in tables if name in t]) for name in names}

    return OperatorResult(stack_tables([p.outputs for p in parts]), stack_tables([p.deltas for p in parts]))
