"""State: what a query keeps besides its result, so that it need not look at everything again.

Every operator that is not linear keeps one relation, in a channel of its own. Groups keep their accumulators;
distinct rows of what only grows keep themselves; whatever is recomputed a partition at a time keeps its result,
since what it gave before must be taken back exactly.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from tidemill.algebra.accumulators import ROWS, Accumulator, Kept, kept, rows_kept
from tidemill.algebra.expression import column, expression, quoted
from tidemill.algebra.operators import Apply, At, Filter, Fold, Group, Named, Operator, Project, Scan, Top, Window, walk
from tidemill.algebra.properties import grows
from tidemill.model.change import Append, Signed, Updates, Upsert

Stateful = Group | Window | Top | Apply


def stateful(op: Operator) -> list[Stateful]:
    """The operators of a tree that keep state, each once, inputs first."""
    return list(dict.fromkeys(o for o in walk(op) if isinstance(o, Group | Window | Top | Apply)))


@dataclass(frozen=True)
class GroupState:
    """The state of a group: a row for each, of its keys and accumulators."""

    group: Group
    channel: str

    @cached_property
    def kept(self) -> tuple[Kept, ...]:
        return tuple(kept(f) for f in self.group.folds)

    @cached_property
    def accumulators(self) -> tuple[Accumulator, ...]:
        return (rows_kept(), *(a for k in self.kept for a in k.accumulators))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(a.name for a in self.accumulators)

    @property
    def exact(self) -> bool:
        """Can every accumulator be taken back?"""
        return all(a.exact for a in self.accumulators)

    @property
    def combines(self) -> bool:
        """Can every accumulator take more rows in?"""
        return all(a.combine is not None for a in self.accumulators)

    @property
    def plain(self) -> bool:
        """Are the distinct rows themselves all that need be kept?"""
        return not self.group.folds and grows(self.group.child)

    @property
    def updates(self) -> Updates:
        return Append() if self.plain else Upsert(self.group.keys)

    def scan(self) -> Scan:
        names = self.group.keys if self.plain else (*self.group.keys, *self.names)
        return Scan(self.channel, names, At.OLD)

    def of(self, child: Operator) -> Operator:
        """The state that belongs to these rows."""
        return Group(child, self.group.keys, () if self.plain else tuple(a.fold for a in self.accumulators))

    def finished(self, state: Operator, prefix: str = "") -> Operator:
        """The group's rows, from rows of its state."""
        return Project(state, self.values(prefix))

    def values(self, prefix: str = "") -> tuple[Named, ...]:
        keys = tuple(Named(k, column(k)) for k in self.group.keys)
        return (*keys, *(Named(k.fold.name, k.value(prefix)) for k in self.kept))


@dataclass(frozen=True)
class ResultState:
    """The state of what is recomputed a partition at a time: its own rows."""

    op: Window | Top | Apply
    channel: str

    @property
    def partition(self) -> tuple[str, ...]:
        match self.op:
            case Window(partition=names) | Apply(keys=names):
                return names
            case Top():
                return ()

    @property
    def updates(self) -> Updates:
        return Signed()

    def scan(self) -> Scan:
        return Scan(self.channel, self.op.columns, At.OLD)

    def of(self, child: Operator) -> Operator:
        return _over(self.op, child)


State = GroupState | ResultState


def state_of(op: Stateful, channel: str) -> State:
    return GroupState(op, channel) if isinstance(op, Group) else ResultState(op, channel)


def _over(op: Window | Top | Apply, child: Operator) -> Operator:
    match op:
        case Window():
            return replace(op, child=child)
        case Top():
            return Top(child, op.order, op.limit, op.skip)
        case Apply():
            return Apply(child, op.keys, op.function, op.schema, op.outputs, op.identity)


def net(signed: Operator) -> Operator:
    """Signed rows, each once, those that cancel out left out."""
    names = tuple(c for c in signed.columns if c != "_count")
    total = Fold("_count", "sum", (column("_count"),))
    return Filter(Group(signed, names, (total,)), expression("_count <> 0"))


def there(prefix: str) -> str:
    """The condition that a row of state is there."""
    return f"COALESCE({quoted(prefix + ROWS)}, 0) > 0"
