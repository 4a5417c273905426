"""State: the relations that a query stores besides its result, so that a refresh need not read all rows again.

Every operator that is not linear has one relation, in a separate channel. Groups store their accumulators; distinct
rows of append-only input store themselves; operators that are recomputed by partition store their result, because their
previous rows must be retracted exactly.
"""

from dataclasses import dataclass, replace
from functools import cached_property

from tidemill.algebra import operators as ops
from tidemill.algebra.accumulators import (
    ROW_COUNT,
    Accumulator,
    IncrementalAggregate,
    build_row_count,
    decompose_aggregate,
)
from tidemill.algebra.expression import build_column, quote_name
from tidemill.algebra.properties import is_append_only
from tidemill.model.change import COUNT, Append, Signed, Updates, Upsert

NEW, OLD, ADDED = "new.", "old.", "added."
"""Prefixes of a state's columns in a change: the new value, the old value, and the added amount."""

Stateful = ops.Aggregation | ops.WindowFunction | ops.TopN | ops.GroupedMap


def list_stateful(op: ops.Operator) -> list[Stateful]:
    """The distinct stateful operators of a tree, inputs first."""
    return list(dict.fromkeys(o for o in ops.walk_operators(op) if isinstance(o, Stateful)))


@dataclass(frozen=True)
class GroupState:
    """The state of an aggregation: one row for each group with its keys and accumulators."""

    group: ops.Aggregation
    channel: str

    @cached_property
    def incremental_aggregates(self) -> tuple[IncrementalAggregate, ...]:
        return tuple(decompose_aggregate(f) for f in self.group.calls)

    @cached_property
    def accumulators(self) -> tuple[Accumulator, ...]:
        return (build_row_count(), *(a for k in self.incremental_aggregates for a in k.accumulators))

    @property
    def accumulator_names(self) -> tuple[str, ...]:
        return tuple(a.name for a in self.accumulators)

    @property
    def is_exact(self) -> bool:
        """Whether every accumulator supports retraction."""
        return all(a.is_exact for a in self.accumulators)

    @property
    def is_distinct_only(self) -> bool:
        """Whether the distinct rows themselves are the complete state."""
        return not self.group.calls and is_append_only(self.group.child)

    @property
    def updates(self) -> Updates:
        return Append() if self.is_distinct_only else Upsert(self.group.keys)

    def scan_state(self) -> ops.Scan:
        names = self.group.keys if self.is_distinct_only else (*self.group.keys, *self.accumulator_names)
        return ops.Scan(self.channel, names, ops.ScanMode.OLD)

    def build_state(self, child: ops.Operator) -> ops.Operator:
        calls = () if self.is_distinct_only else tuple(a.call for a in self.accumulators)
        return ops.Aggregation(child, self.group.keys, calls)

    def finish_rows(self, state: ops.Operator) -> ops.Operator:
        """The group's rows, computed from rows of its state."""
        return state if self.is_distinct_only else ops.Projection(state, self.build_result_items())

    def build_result_items(self, prefix: str = "") -> tuple[ops.NamedExpression, ...]:
        values = ops.name_values({k.call.name: k.build_value(prefix) for k in self.incremental_aggregates})
        return (*ops.to_items(self.group.keys), *values)

    def build_change_condition(self) -> str:
        """The condition that an accumulator changed. The row count may change without a change of the result."""
        names = [a.name for k in self.incremental_aggregates for a in k.accumulators]
        pairs = [f"NOT ({quote_name(NEW + n)} <=> {quote_name(OLD + n)})" for n in names]
        presence = f"({build_presence_condition(NEW)}) <> ({build_presence_condition(OLD)})"
        return f"({' OR '.join([*pairs, presence])})"


@dataclass(frozen=True)
class ResultState:
    """The state of an operator that is recomputed by partition: its result rows."""

    op: ops.WindowFunction | ops.TopN | ops.GroupedMap
    channel: str

    @property
    def partition_columns(self) -> tuple[str, ...]:
        match self.op:
            case ops.WindowFunction(partition=names) | ops.GroupedMap(keys=names):
                return names
            case ops.TopN():
                return ()

    @property
    def updates(self) -> Updates:
        return Signed()

    def scan_state(self) -> ops.Scan:
        return ops.Scan(self.channel, self.op.columns, ops.ScanMode.OLD)

    def build_state(self, child: ops.Operator) -> ops.Operator:
        return replace(self.op, child=child)

    def finish_rows(self, state: ops.Operator) -> ops.Operator:
        return state


State = GroupState | ResultState


def create_state(op: Stateful, channel: str) -> State:
    return GroupState(op, channel) if isinstance(op, ops.Aggregation) else ResultState(op, channel)


def cancel_signed_rows(signed: ops.Operator) -> ops.Operator:
    """Distinct signed rows without those that cancel out."""
    names = tuple(c for c in signed.columns if c != COUNT)
    total = ops.AggregateCall(COUNT, "sum", (build_column(COUNT),))
    return ops.filter_rows(ops.Aggregation(signed, names, (total,)), f"{COUNT} <> 0")


def build_presence_condition(prefix: str) -> str:
    """The condition that a row of state exists."""
    return f"COALESCE({quote_name(prefix + ROW_COUNT)}, 0) > 0"
