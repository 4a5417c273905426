"""Linear Road as a workflow of Tidemill: reports come in, answers go out, and everything between them is state."""

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
"""The kinds of state that are not split by vehicle, as the kernel calls them."""

STATISTICS = {
    "0 speeds groups": ("segment", "mark", "seen"),
    "0 speeds panes": ("segment", "pane", "events", "spd"),
    "0 cars groups": ("segment", "mark", "seen"),
    "0 cars panes": ("segment", "pane", "events"),
}
"""Kinds of state with a few rows each share a channel, which has its price in every commit; and their columns."""

EXPENDITURES = "expenditures"
NO_HISTORY: Columns = {name: np.empty(0, np.int64) for name in HISTORY}


TOLLING, SPENDING = "tolling", "spending"
"""The flows, where the benchmark is two of them; else the first is all of it."""


def workflow(expressways: int) -> tm.Workflow:
    """All answers by one flow: what it writes is one commit a batch."""
    wf = _fed()
    _tolling(wf, expressways, _SHAPES)
    return wf


def two_flows(expressways: int) -> tm.Workflow:
    """The tolls of days past have a flow of their own, which may take longer: somebody has to say which goes first."""
    wf = _fed()
    _tolling(wf, expressways, {kind: ddl for kind, ddl in _SHAPES.items() if kind != EXPENDITURES})
    reads = {"reports": tm.New, "history": tm.All}
    wf.stateful(SPENDING, Spending, reads=reads, states={}, writes={EXPENDITURES: _SHAPES[EXPENDITURES]})
    return wf


def _fed() -> tm.Workflow:
    wf = tm.Workflow("linear_road")
    wf.input("reports", _bigints(INPUT))
    wf.input("history", _bigints(HISTORY))
    return wf


def _tolling(wf: tm.Workflow, expressways: int, writes: Mapping[str, str]) -> None:
    reads = {"reports": tm.New, "history": tm.All}
    given = {"expressways": expressways, "answers": list(writes)}
    wf.stateful(TOLLING, Tolling, reads=reads, states=STATES, writes=writes, parameters=given)


class Tolling:
    """The operator: the kernel, with its state in channels."""

    def __init__(self, expressways: int, answers: Sequence[str]) -> None:
        self._road = LinearRoad(expressways, NO_HISTORY)
        self._answers = answers
        self._history: pa.Table | None = None

    def restore(self, blocks: Mapping[str, Sequence[pa.Table]]) -> None:
        if blocks["conditions"]:
            own = {_inside(name): tables for name, tables in blocks.items() if name != "statistics"}
            self._road.restore({**own, **_unpacked(blocks["statistics"])})

    def run(self, batch: OperatorBatch) -> OperatorResult:
        self._know(batch.whole["history"])
        rows = batch.concat_rows("reports")
        if EXPENDITURES not in self._answers:
            rows = rows.filter(pc.not_equal(rows["type"], EXPENDITURE))
        if not rows.num_rows:
            return OperatorResult({}, {})
        answers, deltas = self._road.run({name: rows[name].to_numpy() for name in INPUT})
        told = {kind: pa.table(dict(answers[kind])) for kind in self._answers}
        parts = {name: deltas.get(_inside(name), []) for name in STATES} | {"statistics": list(_packed(deltas))}
        changed = {name: _newest(parts[name], kept.key) for name, kept in STATES.items()}
        return OperatorResult(told, {name: rows for name, rows in changed.items() if rows is not None})

    def _know(self, history: pa.Table) -> None:
        if history is not self._history:
            self._history = history
            self._road.know({name: history[name].to_numpy() for name in HISTORY})


class Spending:
    """The operator that answers what was spent on days past. It keeps nothing but a look-up table."""

    def __init__(self) -> None:
        self._history: pa.Table | None = None
        self._spent = Expenditures(NO_HISTORY)

    def restore(self, blocks: Mapping[str, Sequence[pa.Table]]) -> None:
        """There is no state."""

    def run(self, batch: OperatorBatch) -> OperatorResult:
        history = batch.whole["history"]
        if history is not self._history:
            self._history = history
            self._spent = Expenditures({name: history[name].to_numpy() for name in HISTORY})
        rows = batch.concat_rows("reports")
        asked = rows.filter(pc.equal(rows["type"], EXPENDITURE))
        answers = self._spent.answer({name: asked[name].to_numpy() for name in INPUT})
        return OperatorResult({EXPENDITURES: pa.table(dict(answers))}, {})


def _bigints(names: Iterable[str]) -> str:
    return ", ".join(f"{name} bigint" for name in names)


def _inside(name: str) -> str:
    """What the kernel calls a kind of state: it numbers partitions, and here is one."""
    return SHARED.get(name) or f"0 {name.replace('_', ' ')}"


_SHAPES = {kind: _bigints(n for n in names if n != "emit") for kind, (_, names) in ANSWERS.items()}


def _packed(deltas: Mapping[str, Sequence[pa.Table]]) -> Iterator[pa.Table]:
    """The kinds that share a channel, each with its number, in the columns of all."""
    want = to_arrow_schema(STATES["statistics"].schema)
    for what, name in enumerate(STATISTICS):
        for rows in deltas.get(name, ()):
            have = {n: rows[n] for n in rows.column_names} | {"what": np.full(rows.num_rows, what)}
            columns = [have[f.name] if f.name in have else np.zeros(rows.num_rows, bool) for f in want]
            yield pa.table([pa.array(c).cast(f.type) for c, f in zip(columns, want, strict=True)], schema=want)


def _unpacked(blocks: Sequence[pa.Table]) -> dict[str, list[pa.Table]]:
    return {
        name: [b.filter(pc.equal(b["what"], what)).select(columns) for b in blocks]
        for what, (name, columns) in enumerate(STATISTICS.items())
    }


def _newest(tables: Sequence[pa.Table], key: tuple[str, ...]) -> pa.Table | None:
    """The last row of each key; only a batch that goes over a minute's end has several tables."""
    changed = [table for table in tables if table.num_rows]
    if len(changed) < 2:
        return changed[0] if changed else None
    every = pa.concat_tables(changed)
    backwards = every.take(pa.array(np.arange(every.num_rows)[::-1]))
    firsts = _firsts([backwards[name].to_numpy() for name in key])
    return backwards.take(pa.array(firsts))


def _firsts(columns: Sequence[Column]) -> Column:
    """Where each key occurs first."""
    order = np.lexsort(columns[::-1])
    new = np.r_[True, np.logical_or.reduce([np.diff(c[order]) != 0 for c in columns])]
    return np.sort(order[new])
