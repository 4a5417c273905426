"""An engine without Spark, for tests of the code around engines: plain Python rows, real Parquet files."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from benchmarks.empty_engine import EmptyEngine, Inputs, Outputs, Schemas
from tests.algebra.evaluate import evaluate_operator

from tidemill.algebra import reference
from tidemill.algebra.operators import ScanMode
from tidemill.algebra.program import RefreshMode, name_input
from tidemill.encoding.arrow_types import to_arrow_field
from tidemill.model.block import Block, BlockKind
from tidemill.model.change import Append, Rows
from tidemill.model.schema import Schema
from tidemill.model.task import Function, Refresh, Task
from tidemill.model.view import DeltaChain, Snapshot, SnapshotDiff, View
from tidemill.ports.engine import Log, WriteTarget


class PlainEngine(EmptyEngine):
    """Passes lists of dicts to tasks and writes the lists that they return."""

    def __init__(self, locate: Callable[[str], str]) -> None:
        self._locate = locate

    def read_frame(self, view: View) -> Rows:
        match view:
            case Snapshot():
                content = self._read_block(view.base) if view.base else []
                for delta in view.deltas:
                    content = reference.merge_rows(delta.updates, content, self._read_block(delta))
                return content
            case DeltaChain():
                rows = [self._read_block(d) for d in view.deltas]
                first = rows[0] if rows else []
                for later in rows[1:]:
                    first = reference.chain_deltas(view.updates, first, later)
                return first
            case SnapshotDiff():
                return reference.diff_contents(view.updates, self.read_frame(view.before), self.read_frame(view.after))

    def read_rows(self, view: View, limit: int | None = None) -> Rows:
        return self.read_frame(view)[:limit]

    def execute_task(self, task: Task, inputs: Inputs, outputs: Outputs, log: Log) -> Schemas:
        assert isinstance(task.variant.code, Function)
        results = task.variant.code.call(**{name: self.read_frame(view) for name, view in inputs.items()})
        return {name: self.write_frame(results[name], target) for name, target in outputs.items()}

    def write_frame(self, frame: Any, target: WriteTarget, *, tag: str = "") -> Schema:
        assert target.schema is not None
        physical = target.schema if target.kind is BlockKind.BASE else target.updates.build_delta_schema(target.schema)
        schema = pa.schema([to_arrow_field(f) for f in physical])
        half = len(frame) // 2
        for number, part in enumerate((frame[:half], frame[half:])):
            pq.write_table(pa.Table.from_pylist(part, schema=schema), Path(target.directory) / f"{number}.parquet")
        target.receipt.rows = len(frame)
        return target.schema

    def write_view(self, view: Snapshot | DeltaChain, directory: str, *, files: int, tag: str, log: Log) -> int | None:
        kind, updates = (BlockKind.DELTA, view.updates) if isinstance(view, DeltaChain) else (BlockKind.BASE, Append())
        target = WriteTarget(view.channel, kind, directory, view.schema, updates)
        self.write_frame(self.read_frame(view), target, tag=tag)
        return target.receipt.rows

    def find_touched_files(self, view: Snapshot, *, tag: str) -> frozenset[str]:
        assert view.base is not None
        key = view.deltas[0].updates.key or view.schema.names
        keys = {_build_key(key, row) for delta in view.deltas for row in self._read_block(delta)}
        files = ((f, self._read_block(replace(view.base, files=(f,)))) for f in view.base.files)
        return frozenset(f.path for f, rows in files if any(_build_key(key, row) in keys for row in rows))

    def _read_block(self, block: Block) -> Rows:
        rows: Rows = []
        for file in block.files:
            rows += pq.read_table(self._locate(file.path)).to_pylist()
        return rows


def _build_key(names: Sequence[str], row: dict[str, Any]) -> tuple[Hashable, ...]:
    return tuple(reference.to_hashable(row[n]) for n in names)


NO_STATE = Schema.from_ddl("nothing bigint")


class QueryEngine(PlainEngine):
    """Also runs declared tables, by evaluating their queries; a change is the difference of two contents. No state."""

    def execute_task(self, task: Task, inputs: Inputs, outputs: Outputs, log: Log) -> Schemas:
        code = task.variant.code
        if not isinstance(code, Refresh):
            return super().execute_task(task, inputs, outputs, log)
        target = outputs[code.table]
        result = self._content(code, inputs, ScanMode.NEW)
        if code.mode == RefreshMode.INCREMENTAL:
            result = reference.diff_contents(target.updates, self._content(code, inputs, ScanMode.OLD), result)
        states = {name: NO_STATE for name in outputs if name != code.table}
        return {code.table: self.write_frame(result, target), **states}

    def _content(self, code: Refresh, inputs: Mapping[str, View], mode: ScanMode) -> Rows:
        """The table's content now or before; a channel that the variant does not read is unchanged."""
        modes = (ScanMode.NEW, ScanMode.OLD) if mode is ScanMode.NEW else (ScanMode.OLD, ScanMode.NEW)
        names = {c: [name_input(c, m) for m in modes] for c in code.query.channels}
        views = {c: next(inputs[n] for n in options if n in inputs) for c, options in names.items()}
        return evaluate_operator(
            code.query.root, {(c, ScanMode.NEW): self.read_frame(view) for c, view in views.items()}
        )
