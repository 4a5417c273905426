"""Programs: the computation of a run of a declared query, as data.

A program is a list of steps, each computed once and readable by later steps, and of outputs, each with the rows for one
channel: the full content in batch, a delta incrementally.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from tidemill.algebra import operators as ops
from tidemill.algebra.derive import Derivation
from tidemill.algebra.expression import build_column
from tidemill.algebra.merge import pick_latest_rows
from tidemill.algebra.patches import find_many_to_one
from tidemill.algebra.properties import Key, find_keys, find_lasting_keys, is_append_only
from tidemill.algebra.states import (
    NEW,
    GroupState,
    State,
    build_presence_condition,
    cancel_signed_rows,
    create_state,
    list_stateful,
)
from tidemill.model.change import COUNT, DELETED, PATCH, Append, Patch, Signed, Updates, Upsert


class RefreshMode(StrEnum):
    """How a declared query is refreshed."""

    BATCH = "batch"  # recompute everything, including the state
    INCREMENTAL = "incremental"
    RECOMPUTE = "recompute"  # recompute the result and drop the state: quicker, but the next cannot be incremental


@dataclass(frozen=True, slots=True)
class VariantName:
    """The name of a variant: its refresh mode, and its channel if it consumes the changes of one channel only.

    Such a variant reads the other channels as they were last consumed. A programmed task's variant is its own mode.

    >>> VariantName.from_text("incremental:pages"), str(VariantName(RefreshMode.INCREMENTAL, "pages"))
    (VariantName(mode='incremental', channel='pages'), 'incremental:pages')
    """

    mode: str
    channel: str | None = None

    @classmethod
    def from_text(cls, text: str) -> VariantName:
        mode, _, channel = text.partition(":")
        return cls(mode, channel or None)

    def __str__(self) -> str:
        return f"{self.mode}" if self.channel is None else f"{self.mode}:{self.channel}"


def name_input(channel: str, mode: ops.ScanMode) -> str:
    """The name of a refresh's input: a channel's content now or before, or its change."""
    return f"{channel}@{mode}"


Steps = Mapping[str, ops.Operator]


@dataclass(frozen=True, slots=True)
class Program:
    """Steps in order, then outputs by channel: None if nothing changed. A step named like an output is its rows."""

    steps: Steps
    outputs: Mapping[str, ops.Operator | None]

    def map_operators(self, transform: Callable[[ops.Operator], ops.Operator]) -> Program:
        return Program({name: transform(op) for name, op in self.steps.items()}, self.map_outputs(transform))

    def map_outputs(self, transform: Callable[[ops.Operator], ops.Operator]) -> dict[str, ops.Operator | None]:
        return {channel: rows and transform(rows) for channel, rows in self.outputs.items()}

    def select_outputs(self, channels: Collection[str]) -> Program:
        return replace(self, outputs={c: rows for c, rows in self.outputs.items() if c in channels})


@dataclass(frozen=True, slots=True)
class DeclaredQuery:
    """A declared table: its channel and its operators."""

    table: str
    root: ops.Operator

    def build_states(self) -> dict[ops.Operator, State]:
        """The state of each stateful operator; their channels are `table.state1` and so on."""
        return {op: create_state(op, f"{self.table}.state{i}") for i, op in enumerate(list_stateful(self.root), 1)}

    @property
    def channels(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(o.channel for o in ops.list_scans(self.root)))

    @property
    def key(self) -> Key | None:
        """A key of the result, if it is known to have one."""
        return next((k for k in find_keys(self.root) if k), None)

    @property
    def updates(self) -> Updates:
        if is_append_only(self.root):
            return Append()
        if (joined := find_many_to_one(self.root)) is not None:
            return Patch(joined.key, tuple(joined.partner_keys), tuple(joined.partner_columns))
        return Signed() if self.key is None else Upsert(self.key)

    def build_batch(self) -> Program:
        """Recompute the states, inputs first, and the result from them."""
        states = self.build_states()
        steps: dict[str, ops.Operator] = {}
        for op, state in states.items():
            steps[state.channel] = state.build_state(_read_from_states(op.child, states, steps))  # type: ignore[union-attr]
        outputs: dict[str, ops.Operator | None] = {c: ops.StepReference(c, op.columns) for c, op in steps.items()}
        return Program(steps, outputs | {self.table: _read_from_states(self.root, states, steps)})

    def build_recompute(self) -> Program:
        return Program({}, {self.table: self.root})

    def build_incremental(self, changed: Collection[str], pinned: Collection[str] = ()) -> Program:
        """The program that writes the changes of the changed channels; `pinned` channels are read as last consumed."""
        states = self.build_states()
        derivation = Derivation(states, changed, pinned)
        result = _derive_result(self, derivation)
        outputs = {state.channel: _derive_state(op, state, derivation) for op, state in states.items()}
        return Program(dict(derivation.steps), outputs | {self.table: result})


def _read_from_states(op: ops.Operator, states: Mapping[ops.Operator, State], steps: Steps) -> ops.Operator:
    """The content, with stateful operators read from their states."""
    state = states.get(op)
    if state is None:
        return ops.map_children(op, lambda child: _read_from_states(child, states, steps))
    return state.finish_rows(ops.StepReference(state.channel, steps[state.channel].columns))


def _derive_result(query: DeclaredQuery, derivation: Derivation) -> ops.Operator | None:
    """The change of the result, in the form in which it is stored."""
    match query.updates:
        case Append():
            change = derivation.derive_change(query.root)
            if change is None:
                return None
            added = ops.repeat_rows(change, COUNT, "_times")  # each added row as often as it was added
            return ops.select_columns(added, (c for c in change.columns if c != COUNT))
        case Patch(key):
            joined = find_many_to_one(query.root)
            rows = derivation.derive_patches(joined) if joined is not None else None
            if rows is not None:
                return rows
            upserts = _derive_upserts(query, derivation, key)
            return upserts and ops.add_columns(upserts, {PATCH: "FALSE"})
        case Upsert(key):
            return _derive_upserts(query, derivation, key)
        case _:
            change = derivation.derive_change(query.root)
            return change and cancel_signed_rows(change)


def _derive_upserts(query: DeclaredQuery, derivation: Derivation, key: Key) -> ops.Operator | None:
    """The new row of each key that may have changed."""
    rows = derivation.find_touched_rows(query.root) if key in find_lasting_keys(query.root) else None
    if rows is not None:
        return rows
    change = derivation.derive_change(query.root)
    if change is None:
        return None
    return pick_latest_rows(ops.add_columns(cancel_signed_rows(change), {DELETED: f"{COUNT} < 0"}), key, COUNT)


def _derive_state(op: ops.Operator, state: State, derivation: Derivation) -> ops.Operator | None:
    """The change of a state, in the form in which it is stored."""
    change = derivation.derive_change(op)
    if change is None or not isinstance(state, GroupState):
        return change
    if state.is_distinct_only:
        return ops.select_columns(change, state.group.keys)
    groups = derivation.find_touched_groups(state)
    accumulators = {n: build_column(NEW + n) for n in state.accumulator_names}
    deletion = f"NOT ({build_presence_condition(NEW)})"
    return ops.select_columns(groups, state.group.keys, {**accumulators, DELETED: deletion})
