"""Programs: what a run of a declared query computes, as data.

A program is a list of steps, each computed once and readable by those after it, and of writes, each of them the
rows for one channel: the whole content in batch, a delta incrementally.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from tidemill.algebra.derive import Derivation
from tidemill.algebra.expression import Expression, column, expression, literal, quoted
from tidemill.algebra.operators import (
    Fold,
    Group,
    Named,
    Operator,
    Project,
    Ref,
    extend,
    rebuilt,
    repeated,
    scans,
    select,
)
from tidemill.algebra.patches import shared
from tidemill.algebra.pieces import NEW
from tidemill.algebra.properties import Key, grows, keys_of
from tidemill.algebra.states import GroupState, State, net, state_of, stateful, there
from tidemill.model.change import COUNT, DELETED, PATCH, Append, Patch, Signed, Updates, Upsert


class Way(StrEnum):
    """How a declared query is run."""

    BATCH = "batch"  # everything anew, the state too
    INCREMENTAL = "incremental"
    RECOMPUTE = "recompute"  # everything anew, the state dropped: quicker, but the next refresh has none to go on from


COLLECTED = 6_000_000
"""Rows of a change up to which what is computed of it is collected; of more, every step is Spark's
(docs/benchmarks.md)."""


@dataclass(frozen=True, slots=True)
class Output:
    """The rows for one channel, and how they merge; no operator: nothing changed."""

    channel: str
    rows: Operator | None
    updates: Updates


@dataclass(frozen=True, slots=True)
class Program:
    """Steps in order, then outputs. A step named like an output's channel is that output's rows."""

    steps: Mapping[str, Operator]
    outputs: tuple[Output, ...]

    def over(self, change: Callable[[Operator], Operator]) -> Program:
        """The program with all its operators changed."""
        outputs = (Output(o.channel, o.rows and change(o.rows), o.updates) for o in self.outputs)
        return Program({name: change(op) for name, op in self.steps.items()}, tuple(outputs))

    def writing(self, channels: Collection[str]) -> Program:
        """The program for some of its outputs."""
        return replace(self, outputs=tuple(o for o in self.outputs if o.channel in channels))


@dataclass(frozen=True, slots=True)
class Query:
    """A declared table: its channel, its tree, and the state it keeps."""

    table: str
    root: Operator

    def states(self) -> dict[Operator, State]:
        """The state of each operator that keeps any; `table.state1` and so on are their channels."""
        return {op: state_of(op, f"{self.table}.state{i}") for i, op in enumerate(stateful(self.root), 1)}

    @property
    def channels(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(o.channel for o in scans(self.root)))

    @property
    def key(self) -> Key | None:
        """A key of the result, if it is known to have one."""
        return next((k for k in keys_of(self.root) if k), None)

    @property
    def updates(self) -> Updates:
        """How a refresh writes what changed."""
        if grows(self.root):
            return Append()
        if (joined := shared(self.root)) is not None:
            return Patch(joined.key, tuple(joined.by), tuple(joined.columns))
        return Signed() if self.key is None else Upsert(self.key)

    def batch(self) -> Program:
        """Everything anew: the states, inputs first, and the result from them."""
        states = self.states()
        steps: dict[str, Operator] = {}
        for op, state in states.items():
            steps[state.channel] = state.of(_from_states(op.child, states, steps))  # type: ignore[union-attr]
        outputs = [Output(s.channel, Ref(s.channel, steps[s.channel].columns), s.updates) for s in states.values()]
        result = _from_states(self.root, states, steps)
        return Program(steps, (*outputs, Output(self.table, result, self.updates)))

    def recompute(self) -> Program:
        """The result anew, and nothing else."""
        return Program({}, (Output(self.table, self.root, self.updates),))

    def incremental(self, changed: Collection[str], held: Collection[str] = ()) -> Program:
        """What changed, given the channels that did; `held` ones are left as they were when last consumed."""
        states = self.states()
        derivation = Derivation(states, changed, held)
        result = _result(self, derivation)
        kept = [Output(s.channel, _kept(op, s, derivation), s.updates) for op, s in states.items()]
        return Program(dict(derivation.steps), (*kept, Output(self.table, result, self.updates)))


def _from_states(op: Operator, states: Mapping[Operator, State], steps: Mapping[str, Operator]) -> Operator:
    """The content, with what keeps state read from there."""
    state = states.get(op)
    if state is None:
        return rebuilt(op, lambda child: _from_states(child, states, steps))
    rows = Ref(state.channel, steps[state.channel].columns)
    return state.finished(rows) if isinstance(state, GroupState) and not state.plain else rows


def _result(query: Query, derivation: Derivation) -> Operator | None:
    """The change of the result, in the form in which it is kept."""
    match query.updates:
        case Append():
            change = derivation.change(query.root)
            return None if change is None else _repeated(change)
        case Patch(key):
            joined = shared(query.root)
            rows = derivation.patched(joined) if joined is not None else None
            if rows is not None:
                return rows
            upserts = _upserts(query, derivation, key)
            return None if upserts is None else extend(upserts, Named(PATCH, literal("FALSE")))
        case Upsert(key):
            return _upserts(query, derivation, key)
        case _:
            change = derivation.change(query.root)
            return None if change is None else net(change)


def _upserts(query: Query, derivation: Derivation, key: Key) -> Operator | None:
    """The new row of each key that may have changed."""
    rows = derivation.touched(query.root)
    if rows is not None:
        return rows
    change = derivation.change(query.root)
    return None if change is None else _by_key(net(change), key)


def _kept(op: Operator, state: State, derivation: Derivation) -> Operator | None:
    """The change of a state, in the form in which it is kept."""
    change = derivation.change(op)
    if change is None or not isinstance(state, GroupState):
        return change
    if state.plain:
        return select(change, state.group.keys)
    groups = derivation.groups(state)
    gone = f"NOT ({there(NEW)})"
    keys = tuple(Named(k, column(k)) for k in state.group.keys)
    made = tuple(Named(n, column(NEW + n)) for n in state.names)
    return Project(groups, (*keys, *made, Named(DELETED, expression(gone))))


def _repeated(change: Operator) -> Operator:
    """Each added row as often as it was added."""
    names = tuple(c for c in change.columns if c != COUNT)
    return select(repeated(change, COUNT, "_times"), names)


def _by_key(change: Operator, key: Key) -> Operator:
    """Of each key the row that was added, or its deletion."""
    names = tuple(c for c in change.columns if c != COUNT)
    row = expression(f"STRUCT({', '.join(map(quoted, names))})")
    latest = Group(
        change, key, (Fold("_row", "max_by", (row, column(COUNT))), Fold(COUNT, "max", (column(COUNT),)))
    )  # fmt: skip
    field = {n: Expression(f"`_row`.{quoted(n)}", frozenset(["_row"])) for n in names}
    made = tuple(Named(n, column(n) if n in key else field[n]) for n in names)
    return Project(latest, (*made, Named(DELETED, expression(f"{COUNT} < 0"))))
