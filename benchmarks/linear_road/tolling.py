"""Linear Road as a workflow of Tidemill: an operator with state that reads reports and writes answers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import tidemill as tm
from benchmarks.linear_road.places import Expenditures
from benchmarks.linear_road.rows import ANSWERS, EXPENDITURE, HISTORY, INPUT, Column, Columns
from benchmarks.linear_road.workflow import LinearRoad
from tidemill.encoding.arrow_types import to_arrow_schema
from tidemill.stream import OperatorBatch, OperatorResult

STATES = {
    "vehicles": tm.state(
        "vid bigint, balance bigint, quoted bigint, time int, pos int, xway int, alike int, seg smallint, "
        "dir tinyint, lane tinyint, status tinyint",
        key="vid",
    ),
    "seen": tm.state("vehicle_and_segment bigint, time bigint", key="vehicle_and_segment"),
    "statistics": tm.state(
        "what bigint, segment bigint, pane bigint, mark bigint, seen boolean, events bigint, spd bigint",
        key=("what", "segment", "pane"),
    ),
    "places": tm.state("place bigint, stopped int", key="place"),
    "conditions": tm.state(
        "segment bigint, lav bigint, toll bigint, accident bigint, begins bigint", key="segment"
    ),
}  # fmt: skip
SHARED = {"places": "accidents", "conditions": "conditions"}
"""The kernel's names of the kinds of state that are not partitioned by vehicle."""

STATISTICS = {
    "0 speeds groups": ("segment", "mark", "seen"),
    "0 speeds panes": ("segment", "pane", "events", "spd"),
    "0 cars groups": ("segment", "mark", "seen"),
    "0 cars panes": ("segment", "pane", "events"),
}
"""Columns of the small kinds of state, which share one channel, because every channel adds to the cost of a commit."""

EXPENDITURES = "expenditures"
NO_HISTORY: Columns = {name: np.empty(0, np.int64) for name in HISTORY}


TOLLING, SPENDING = "tolling", "spending"
"""The two flows; without a second flow, the first one answers everything."""


def build_workflow(expressways: int) -> tm.Workflow:
    """All answers by one flow, with one commit per batch."""
    wf = _create_inputs()
    _add_tolling(wf, expressways, _ANSWER_SCHEMAS)
    return wf


def two_flows(expressways: int) -> tm.Workflow:
    """Two flows: tolls of past days, whose answers may take longer, are separate, so that policies differ."""
    wf = _create_inputs()
    _add_tolling(wf, expressways, {kind: ddl for kind, ddl in _ANSWER_SCHEMAS.items() if kind != EXPENDITURES})
    reads = {"reports": tm.New, "history": tm.All}
    wf.stateful(SPENDING, Spending, reads=reads, states={}, writes={EXPENDITURES: _ANSWER_SCHEMAS[EXPENDITURES]})
    return wf


def _create_inputs() -> tm.Workflow:
    wf = tm.Workflow("linear_road")
    wf.input("reports", _to_ddl(INPUT))
    wf.input("history", _to_ddl(HISTORY))
    return wf


def _add_tolling(wf: tm.Workflow, expressways: int, writes: Mapping[str, str]) -> None:
    reads = {"reports": tm.New, "history": tm.All}
    parameters = {"expressways": expressways, "answers": list(writes)}
    wf.stateful(TOLLING, Tolling, reads=reads, states=STATES, writes=writes, parameters=parameters)


class Tolling:
    """The operator: the kernel with its state in channels."""

    def __init__(self, expressways: int, answers: Sequence[str]) -> None:
        self._road = LinearRoad(expressways, NO_HISTORY)
        self._answers = answers
        self._history: pa.Table | None = None

    def restore(self, blocks: Mapping[str, Sequence[pa.Table]]) -> None:
        if blocks["conditions"]:
            state = {_get_kernel_name(name): tables for name, tables in blocks.items() if name != "statistics"}
            self._road.restore({**state, **_unpack_statistics(blocks["statistics"])})

    def run(self, batch: OperatorBatch) -> OperatorResult:
        self._update_history(batch.whole["history"])
        rows = batch.concat_rows("reports")
        if EXPENDITURES not in self._answers:
            rows = rows.filter(pc.not_equal(rows["type"], EXPENDITURE))
        if not rows.num_rows:
            return OperatorResult({}, {})
        answers, deltas = self._road.run({name: rows[name].to_numpy() for name in INPUT})
        outputs = {kind: pa.table(dict(answers[kind])) for kind in self._answers}
        parts = {name: deltas.get(_get_kernel_name(name), []) for name in STATES} | {
            "statistics": list(_pack_statistics(deltas))
        }
        changed = {name: _select_newest(parts[name], state.key) for name, state in STATES.items()}
        return OperatorResult(outputs, {name: rows for name, rows in changed.items() if rows is not None})

    def _update_history(self, history: pa.Table) -> None:
        if history is not self._history:
            self._history = history
            self._road.set_history({name: history[name].to_numpy() for name in HISTORY})


class Spending:
    """The operator that answers queries for expenditures of past days, from a lookup table; it has no state."""

    def __init__(self) -> None:
        self._history: pa.Table | None = None
        self._expenditures = Expenditures(NO_HISTORY)

    def restore(self, blocks: Mapping[str, Sequence[pa.Table]]) -> None:
        """Does nothing: there is no state."""

    def run(self, batch: OperatorBatch) -> OperatorResult:
        history = batch.whole["history"]
        if history is not self._history:
            self._history = history
            self._expenditures = Expenditures({name: history[name].to_numpy() for name in HISTORY})
        rows = batch.concat_rows("reports")
        queries = rows.filter(pc.equal(rows["type"], EXPENDITURE))
        answers = self._expenditures.answer({name: queries[name].to_numpy() for name in INPUT})
        return OperatorResult({EXPENDITURES: pa.table(dict(answers))}, {})


def _to_ddl(names: Iterable[str]) -> str:
    return ", ".join(f"{name} bigint" for name in names)


def _get_kernel_name(name: str) -> str:
    """The kernel's name of a kind of state, with the number of the only partition."""
    return SHARED.get(name) or f"0 {name.replace('_', ' ')}"


_ANSWER_SCHEMAS = {kind: _to_ddl(n for n in names if n != "emit") for kind, (_, names) in ANSWERS.items()}


def _pack_statistics(deltas: Mapping[str, Sequence[pa.Table]]) -> Iterator[pa.Table]:
    """The kinds that share a channel, each with its number, with the columns of all kinds."""
    schema = to_arrow_schema(STATES["statistics"].schema)
    for kind, name in enumerate(STATISTICS):
        for rows in deltas.get(name, ()):
            columns_by_name = {n: rows[n] for n in rows.column_names} | {"what": np.full(rows.num_rows, kind)}
            columns = [
                columns_by_name[f.name] if f.name in columns_by_name else np.zeros(rows.num_rows, bool) for f in schema
            ]
            yield pa.table([pa.array(c).cast(f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)


def _unpack_statistics(blocks: Sequence[pa.Table]) -> dict[str, list[pa.Table]]:
    return {
        name: [b.filter(pc.equal(b["what"], kind)).select(columns) for b in blocks]
        for kind, (name, columns) in enumerate(STATISTICS.items())
    }


def _select_newest(tables: Sequence[pa.Table], key: tuple[str, ...]) -> pa.Table | None:
    """The last row of each key; only a batch that crosses the end of a minute has several tables."""
    changed = [table for table in tables if table.num_rows]
    if len(changed) < 2:
        return changed[0] if changed else None
    rows = pa.concat_tables(changed)
    backwards = rows.take(pa.array(np.arange(rows.num_rows)[::-1]))
    firsts = _find_firsts([backwards[name].to_numpy() for name in key])
    return backwards.take(pa.array(firsts))


def _find_firsts(columns: Sequence[Column]) -> Column:
    """The index of the first occurrence of each key."""
    order = np.lexsort(columns[::-1])
    new = np.r_[True, np.logical_or.reduce([np.diff(c[order]) != 0 for c in columns])]
    return np.sort(order[new])
