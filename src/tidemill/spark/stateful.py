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

from tidemill.encoding.arrow_types import arrow_schema
from tidemill.errors import BadInput
from tidemill.model.schema import Schema
from tidemill.model.stateful import Keyed, Operated, Stateful, Windowed
from tidemill.model.task import Mode, Read, Task
from tidemill.model.view import Snapshot, View
from tidemill.model.wave_steps import Ended, Started, Synched, Waved
from tidemill.ports.engine import Target
from tidemill.spark import keyed
from tidemill.spark.arrow import Arrow, Session
from tidemill.spark.local.batches import given
from tidemill.spark.view_reader import Locate
from tidemill.stream.lineage_tags import Ending, Starting, Synching
from tidemill.stream.operator import Batch, Made, Operator, Piece
from tidemill.stream.windows.rows import Marks
from tidemill.stream.windows.task import WindowStep

Inputs = Mapping[str, View]
Targets = Mapping[str, Target]
Version = tuple[int, ...]
"""The positions of a task's state channels."""


class StatefulTasks:
    """Runs tasks with state for one engine, and holds what they left for the next run."""

    def __init__(self, locate: Locate) -> None:
        self._locate = locate
        self._cache = Path(tempfile.gettempdir()) / f"tidemill-state-{uuid4().hex}"
        self._left: dict[str, tuple[Version, Operator]] = {}
        self._whole: dict[tuple[str, str], tuple[View, pa.Table]] = {}

    def run(self, session: Session, task: Task, inputs: Inputs, outputs: Targets, now: int) -> dict[str, Schema]:
        arrow = Arrow(session, self._locate)
        made = self._made(_Run(session, arrow, task, inputs, outputs), now)
        rows = {**made.outputs, **made.deltas}
        _check(rows, outputs)
        return {name: arrow.write(rows.get(name), target) for name, target in outputs.items()}

    def stop(self) -> None:
        self._left.clear()
        self._whole.clear()
        shutil.rmtree(self._cache, ignore_errors=True)

    def _made(self, run: _Run, now: int) -> Made:
        code = run.task.variant.code
        assert isinstance(code, Stateful)
        return self._keyed(run, code) if isinstance(code, Keyed) else self._operated(run, code, now)

    def _keyed(self, run: _Run, code: Keyed) -> Made:
        argument, pieces = next(iter(run.new().items()))
        tables = {name: keyed.columns_of(t) for name, t in self._tables(run).items()}
        function = keyed.Called(code.call, argument, {**tables, **run.task.parameters})
        events = pa.concat_tables([piece.rows for piece in pieces])
        target = run.outputs[Keyed.STATE]
        state = keyed.State(keyed.layout_of(code), target.channel, target.before, target.seq, str(self._cache))
        if code.partitions == 1 or events.num_rows < keyed.IN_WORKERS_FROM:
            return keyed.in_driver(state, function, events, partial(run.blocks, Keyed.STATE))
        paths = run.arrow.paths(run.state(Keyed.STATE))
        return _together(keyed.in_workers(run.session(), state, function, events, paths, code.partitions))

    def _operated(self, run: _Run, code: Operated | Windowed | Waved, now: int) -> Made:
        states = [run.outputs[name] for name in code.states]
        place = ", ".join(target.channel for target in states) or run.task.name
        operator = self._taken(place, tuple(target.before for target in states))
        if operator is None:
            operator = _operator(run, code)
            operator.restore({name: run.blocks(name) for name in code.states})
        made = operator.run(Batch(run.new(), self._tables(run), now))
        self._left[place] = (tuple(target.seq for target in states), operator)
        return made

    def _taken(self, place: str, version: Version) -> Operator | None:
        """What the last run left, if it is at this version. Whoever fails while using it leaves nothing."""
        left = self._left.pop(place, None)
        return left[1] if left is not None and left[0] == version else None

    def _tables(self, run: _Run) -> dict[str, pa.Table]:
        """Whole tables, read again only if they have changed."""
        reads = [r for r in run.task.reads if r.mode is Mode.ALL and r.port not in run.task.states]
        return {r.argument: self._table(run, r) for r in reads}

    def _table(self, run: _Run, read: Read) -> pa.Table:
        place, view = (run.task.name, read.port), run.inputs[read.argument]
        known = self._whole.get(place)
        if known is None or known[0] != view:
            known = self._whole[place] = (view, run.arrow.whole(view))
        return known[1]


@dataclass(frozen=True, slots=True)
class _Run:
    """One run of a task. The views of its state are made only if they are asked for."""

    session: Session
    arrow: Arrow
    task: Task
    inputs: Inputs
    outputs: Targets

    def new(self) -> dict[str, list[Piece]]:
        return {r.argument: self.arrow.pieces(self.inputs[r.argument]) for r in self.task.reads if r.mode is Mode.NEW}

    def state(self, name: str) -> Snapshot:
        view = self.inputs[name]
        assert isinstance(view, Snapshot), "state is read as a whole"
        return view

    def blocks(self, name: str) -> list[pa.Table]:
        return self.arrow.blocks(self.state(name))


def _operator(run: _Run, code: Operated | Windowed | Waved) -> Operator:
    match code:
        case Windowed():
            return WindowStep(code, arrow_schema(code.schema), partial(_judged, run.session))
        case Started():
            return Starting(arrow_schema(code.schema))
        case Ended():
            return Ending()
        case Synched():
            return Synching(code)
    operator: Operator = code.make(**run.task.parameters)
    return operator


def _judged(session: Session, rows: pa.Table, conditions: Sequence[str]) -> list[Marks]:
    """For which rows each condition holds; of NULL it does not. Numbers keep the order, whatever Spark does."""
    if not rows.num_rows:
        return [np.zeros(0, bool)] * len(conditions)
    numbered = given(session(), rows.append_column("_number", pa.array(np.arange(rows.num_rows))))
    marks = [F.coalesce(F.expr(text), F.lit(False)).alias(str(n)) for n, text in enumerate(conditions)]
    found = numbered.select("_number", *marks).orderBy("_number").toArrow()
    return [found[str(n)].to_numpy() for n in range(len(conditions))]


def _check(rows: Mapping[str, pa.Table], outputs: Targets) -> None:
    stray = sorted({*rows} - {*outputs})
    if stray:
        known = ", ".join(sorted(outputs))
        raise BadInput(f"expected rows for {known}; the task gave some for {stray[0]!r} as well; declare it in writes")


def _together(parts: Sequence[Made]) -> Made:
    def stacked(tables: Sequence[Mapping[str, pa.Table]]) -> dict[str, pa.Table]:
        names = dict.fromkeys(name for t in tables for name in t)
        return {name: pa.concat_tables([t[name] for t in tables if name in t]) for name in names}

    return Made(stacked([p.outputs for p in parts]), stacked([p.deltas for p in parts]))
