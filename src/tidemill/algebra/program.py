"""Programs: what a run of a declared query computes, as data.

A program is a list of steps, each computed once and readable by those after it, and of writes, each of them the
rows for one channel: the whole content in batch, a delta incrementally.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from tidemill.algebra.derive import Derivation
from tidemill.algebra.expression import Expression, build_column, build_literal, quote_name, to_expression
from tidemill.algebra.operators import (
    AggregateCall,
    Aggregation,
    NamedExpression,
    Operator,
    Projection,
    StepReference,
    add_columns,
    list_scans,
    map_children,
    repeat_rows,
    select_columns,
)
from tidemill.algebra.patches import find_many_to_one
from tidemill.algebra.pieces import NEW
from tidemill.algebra.properties import Key, find_keys, is_append_only
from tidemill.algebra.states import (
    GroupState,
    State,
    build_presence_condition,
    cancel_signed_rows,
    create_state,
    list_stateful,
)
from tidemill.model.change import COUNT, DELETED, PATCH, Append, Patch, Signed, Updates, Upsert


class RefreshMode(StrEnum):
    """How a declared query is run."""

    BATCH = "batch"  # everything anew, the state too
    INCREMENTAL = "incremental"
    RECOMPUTE = "recompute"  # everything anew, the state dropped: quicker, but the next refresh has none to go on from


COLLECTED = 6_000_000
"""Rows of a change up to which what is computed of it is collected; of more, every step is Spark's
(docs/benchmarks.md)."""


@dataclass(frozen=True, slots=True)
class ProgramOutput:
    """The rows for one channel, and how they merge; no operator: nothing changed."""

    channel: str
    rows: Operator | None
    updates: Updates


@dataclass(frozen=True, slots=True)
class Program:
    """Steps in order, then outputs. A step named like an output's channel is that output's rows."""

    steps: Mapping[str, Operator]
    outputs: tuple[ProgramOutput, ...]

    def map_operators(self, change: Callable[[Operator], Operator]) -> Program:
        """The program with all its operators changed."""
        outputs = (ProgramOutput(o.channel, o.rows and change(o.rows), o.updates) for o in self.outputs)
        return Program({name: change(op) for name, op in self.steps.items()}, tuple(outputs))

    def select_outputs(self, channels: Collection[str]) -> Program:
        """The program for some of its outputs."""
        return replace(self, outputs=tuple(o for o in self.outputs if o.channel in channels))


@dataclass(frozen=True, slots=True)
class DeclaredQuery:
    """A declared table: its channel, its tree, and the state it keeps."""

    table: str
    root: Operator

    def build_states(self) -> dict[Operator, State]:
        """The state of each operator that keeps any; `table.state1` and so on are their channels."""
        return {op: create_state(op, f"{self.table}.state{i}") for i, op in enumerate(list_stateful(self.root), 1)}

    @property
    def channels(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(o.channel for o in list_scans(self.root)))

    @property
    def key(self) -> Key | None:
        """A key of the result, if it is known to have one."""
        return next((k for k in find_keys(self.root) if k), None)

    @property
    def updates(self) -> Updates:
        """How a refresh writes what changed."""
        if is_append_only(self.root):
            return Append()
        if (joined := find_many_to_one(self.root)) is not None:
            return Patch(joined.key, tuple(joined.by), tuple(joined.columns))
        return Signed() if self.key is None else Upsert(self.key)

    def build_batch(self) -> Program:
        """Everything anew: the states, inputs first, and the result from them."""
        states = self.build_states()
        steps: dict[str, Operator] = {}
        for op, state in states.items():
            steps[state.channel] = state.build_state(_read_from_states(op.child, states, steps))  # type: ignore[union-attr]
        outputs = [
            ProgramOutput(s.channel, StepReference(s.channel, steps[s.channel].columns), s.updates)
            for s in states.values()
        ]
        result = _read_from_states(self.root, states, steps)
        return Program(steps, (*outputs, ProgramOutput(self.table, result, self.updates)))

    def build_recompute(self) -> Program:
        """The result anew, and nothing else."""
        return Program({}, (ProgramOutput(self.table, self.root, self.updates),))

    def build_incremental(self, changed: Collection[str], held: Collection[str] = ()) -> Program:
        """What changed, given the channels that did; `held` ones are left as they were when last consumed."""
        states = self.build_states()
        derivation = Derivation(states, changed, held)
        result = _derive_result(self, derivation)
        kept = [ProgramOutput(s.channel, _derive_state(op, s, derivation), s.updates) for op, s in states.items()]
        return Program(dict(derivation.steps), (*kept, ProgramOutput(self.table, result, self.updates)))


def _read_from_states(op: Operator, states: Mapping[Operator, State], steps: Mapping[str, Operator]) -> Operator:
    """The content, with what keeps state read from there."""
    state = states.get(op)
    if state is None:
        return map_children(op, lambda child: _read_from_states(child, states, steps))
    rows = StepReference(state.channel, steps[state.channel].columns)
    return state.finish_rows(rows) if isinstance(state, GroupState) and not state.is_distinct_only else rows


def _derive_result(query: DeclaredQuery, derivation: Derivation) -> Operator | None:
    """The change of the result, in the form in which it is kept."""
    match query.updates:
        case Append():
            change = derivation.derive_change(query.root)
            return None if change is None else _repeat_added_rows(change)
        case Patch(key):
            joined = find_many_to_one(query.root)
            rows = derivation.derive_patches(joined) if joined is not None else None
            if rows is not None:
                return rows
            upserts = _derive_upserts(query, derivation, key)
            return None if upserts is None else add_columns(upserts, NamedExpression(PATCH, build_literal("FALSE")))
        case Upsert(key):
            return _derive_upserts(query, derivation, key)
        case _:
            change = derivation.derive_change(query.root)
            return None if change is None else cancel_signed_rows(change)


def _derive_upserts(query: DeclaredQuery, derivation: Derivation, key: Key) -> Operator | None:
    """The new row of each key that may have changed."""
    rows = derivation.find_touched_rows(query.root)
    if rows is not None:
        return rows
    change = derivation.derive_change(query.root)
    return None if change is None else _pick_by_key(cancel_signed_rows(change), key)


def _derive_state(op: Operator, state: State, derivation: Derivation) -> Operator | None:
    """The change of a state, in the form in which it is kept."""
    change = derivation.derive_change(op)
    if change is None or not isinstance(state, GroupState):
        return change
    if state.is_distinct_only:
        return select_columns(change, state.group.keys)
    groups = derivation.find_touched_groups(state)
    gone = f"NOT ({build_presence_condition(NEW)})"
    keys = tuple(NamedExpression(k, build_column(k)) for k in state.group.keys)
    made = tuple(NamedExpression(n, build_column(NEW + n)) for n in state.accumulator_names)
    return Projection(groups, (*keys, *made, NamedExpression(DELETED, to_expression(gone))))


def _repeat_added_rows(change: Operator) -> Operator:
    """Each added row as often as it was added."""
    names = tuple(c for c in change.columns if c != COUNT)
    return select_columns(repeat_rows(change, COUNT, "_times"), names)


def _pick_by_key(change: Operator, key: Key) -> Operator:
    """Of each key the row that was added, or its deletion."""
    names = tuple(c for c in change.columns if c != COUNT)
    row = to_expression(f"STRUCT({', '.join(map(quote_name, names))})")
    latest = Aggregation(
        change,
        key,
        (
            AggregateCall("_row", "max_by", (row, build_column(COUNT))),
            AggregateCall(COUNT, "max", (build_column(COUNT),)),
        ),
    )
    field = {n: Expression(f"`_row`.{quote_name(n)}", frozenset(["_row"])) for n in names}
    made = tuple(NamedExpression(n, build_column(n) if n in key else field[n]) for n in names)
    return Projection(latest, (*made, NamedExpression(DELETED, to_expression(f"{COUNT} < 0"))))
