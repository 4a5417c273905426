"""Derivation: from a query to the query of its change.

Three questions have an answer for every operator: its content before (`old`), its content now (`new`), and what
changed (`change`, as signed rows; None if nothing can have). The answers are operators again, over what scans give
before, now, and as a change. Linear operators pass a change through:

    Δ(filter A) = filter ΔA        Δ(A ∪ B) = ΔA ∪ ΔB        Δ(A ⋈ B) = ΔA ⋈ B_new ∪ A_old ⋈ ΔB

What is not linear looks at the keys that the change touches, and at nothing else: a group adds to its accumulators
or makes them anew, an anti join asks which of those keys came and which went. For a result with a key there is a
fourth answer (`touched`): the new row of every key that may have changed, which never needs the old rows at all.

What is used more than once becomes a step of its own, computed once.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from tidemill.algebra.expression import Expression, column, expression, literal, quoted
from tidemill.algebra.operators import (
    At,
    Explode,
    Filter,
    Fold,
    Group,
    Join,
    JoinKind,
    Named,
    One,
    Operator,
    Project,
    Ref,
    Scan,
    Union,
    distinct,
    extend,
    rebuilt,
    select,
    walk,
)
from tidemill.algebra.patches import Shared, as_patches, as_upserts
from tidemill.algebra.pieces import (
    ADDED,
    IS,
    NEW,
    OLD,
    WAS,
    as_keys,
    before,
    columns,
    differs,
    either,
    light,
    mirrored,
    padded,
    padded_union,
    renamed,
    same,
    side_by_side,
    together,
)
from tidemill.algebra.properties import Key, grows, keys_of, unique_on
from tidemill.algebra.restrict import restrict, without
from tidemill.algebra.states import GroupState, ResultState, State, net, there
from tidemill.model.change import COUNT, DELETED

_PLUS, _MINUS = Named(COUNT, literal("1L")), Named(COUNT, literal("-1L"))
_HIT = "_hit"


class Derivation:
    """The change of one query, given which of its channels changed."""

    def __init__(self, states: Mapping[Operator, State], changed: Collection[str], held: Collection[str] = ()) -> None:
        """`held` channels stay what they were: whatever they hold now, it is not looked at."""
        self.states = states
        self.changed = frozenset(changed) - frozenset(held)
        self.held = frozenset(held)
        self.steps: dict[str, Operator] = {}
        self._changes: dict[Operator, Operator | None] = {}
        self._joins: dict[Operator, int] = {}
        self._numbers: dict[Operator, int] = {}

    # -- content -------------------------------------------------------------------------------------------------

    def old(self, op: Operator) -> Operator:
        """The content when the channels were last consumed."""
        state = self.states.get(op)
        if state is not None:
            return self._finished(state, state.scan())
        if isinstance(op, Scan):
            return replace(op, at=At.OLD) if op.channel in self.changed | self.held else op
        return rebuilt(op, self.old)

    def new(self, op: Operator) -> Operator:
        """The content now."""
        state = self.states.get(op)
        if isinstance(op, Scan):
            return self.old(op) if op.channel in self.held else op
        if state is None:
            return rebuilt(op, self.new)
        if not self.changes(op):
            return self.old(op)
        return self._renewed(op, state)

    def changes(self, op: Operator) -> bool:
        """Can anything have changed?"""
        return self.change(op) is not None

    def _finished(self, state: State, rows: Operator) -> Operator:
        return state.finished(rows) if isinstance(state, GroupState) and not state.plain else rows

    def _renewed(self, op: Operator, state: State) -> Operator:
        """What the state held of untouched keys, and the new rows of touched ones."""
        if isinstance(state, ResultState):
            fresh = self._fresh(state)
            if not state.partition:
                return fresh
            kept = without(state.scan(), self._partitions(state), same(state.partition))
            return Union((kept, fresh))
        if state.plain:
            return Union((state.scan(), self._added(state)))
        both = self.groups(state)
        kept = state.finished(without(state.scan(), both, same(state.group.keys)))
        return Union((kept, Project(Filter(both, expression(there(NEW))), state.values(NEW))))

    # -- change --------------------------------------------------------------------------------------------------

    def change(self, op: Operator) -> Operator | None:
        """What changed, as signed rows: the operator's columns and `_count`."""
        if op not in self._changes:
            self._changes[op] = self._change(op)
        return self._changes[op]

    def _change(self, op: Operator) -> Operator | None:
        match op:
            case Scan():
                if op.channel not in self.changed:
                    return None
                return replace(op, columns=(*op.columns, COUNT), at=At.CHANGE)
            case One() | Ref():
                return None
            case Union():
                parts = [c for c in map(self.change, op.children) if c is not None]
                return together(parts)
            case Join():
                return self._join(op)
        below = self.change(op.child)
        if below is None:
            return None
        match op:
            case Project():
                return Project(below, (*op.items, Named(COUNT, column(COUNT))))
            case Filter():
                return Filter(below, op.condition)
            case Explode():
                made = Explode(below, op.generator, op.outputs, op.outer)
                return select(made, (*op.columns, COUNT))
        state = self.states[op]
        return self._group(state) if isinstance(state, GroupState) else self._recomputed(state)

    def _group(self, state: GroupState) -> Operator:
        if state.plain:
            return extend(self._added(state), _PLUS)
        both = self.groups(state)
        before = Filter(both, expression(f"{there(OLD)} AND {differs(state)}"))
        after = Filter(both, expression(f"{there(NEW)} AND {differs(state)}"))
        return Union(
            (Project(before, (*state.values(OLD), _MINUS)), Project(after, (*state.values(NEW), _PLUS)))
        )  # fmt: skip

    def _recomputed(self, state: ResultState) -> Operator:
        """What the touched partitions are made of now, less what they gave before."""
        name = f"change of {state.channel}"
        if name not in self.steps:
            was: Operator = state.scan()
            if state.partition:
                was = restrict(was, self._partitions(state), same(state.partition))
            self.steps[name] = net(Union((extend(self._fresh(state), _PLUS), extend(was, _MINUS))))
        return Ref(name, (*state.op.columns, COUNT))

    def _fresh(self, state: ResultState) -> Operator:
        child = self.new(state.op.child)
        if state.partition:
            child = restrict(child, self._partitions(state), same(state.partition))
        return state.of(child)

    def _partitions(self, state: ResultState) -> Ref:
        """The partitions that the change touches."""
        return self._keys(f"partitions of {state.channel}", state.op.child, state.partition)

    def _keys(self, name: str, op: Operator, names: Key) -> Ref:
        """The values of some columns in what changed, each once."""
        if name not in self.steps:
            changed = self.touched(op) if names in keys_of(op) else None
            source = changed if changed is not None else self.change(op)
            assert source is not None
            self.steps[name] = distinct(select(source, names))
        return Ref(name, names)

    # -- groups --------------------------------------------------------------------------------------------------

    def _added(self, state: GroupState) -> Ref:
        """The distinct rows that were not there yet."""
        name = f"new rows of {state.channel}"
        if name not in self.steps:
            keys = state.group.keys
            seen = select(self._kept_change(state.group.child), keys)
            met = side_by_side(seen, restrict(state.scan(), seen, same(keys)), keys)
            self.steps[name] = select(Filter(met, expression(f"{WAS} = 0")), keys)
        return Ref(name, state.group.keys)

    def _kept_change(self, op: Operator) -> Operator:
        """What changed, as a step if it is not made of steps already: it is looked at more than once."""
        change = self.change(op)
        assert change is not None
        if all(isinstance(o, Ref | Project | Filter) for o in walk(change)):
            return change
        number = self._numbers.setdefault(op, len(self._numbers) + 1)
        return self._step(f"change {number}", change)

    def groups(self, state: GroupState) -> Ref:
        """A row for each group that may have changed: its keys, its accumulators before and now."""
        name = f"groups of {state.channel}"
        if name not in self.steps:
            adding = state.exact or (state.combines and grows(state.group.child))
            self.steps[name] = self._added_up(state) if adding else self._made_anew(state)
        return Ref(name, self.steps[name].columns)

    def _added_up(self, state: GroupState) -> Operator:
        """Accumulators of the change, added to those before."""
        change, keys = self._kept_change(state.group.child), state.group.keys
        folds = [a.weighted for a in state.accumulators if a.weighted is not None]
        added = Project(change, (*columns(keys), *(Named(ADDED + f.name, f.arguments[0]) for f in folds)))
        was = renamed(restrict(state.scan(), select(change, keys), same(keys)), OLD, but=keys)
        totals = [Fold(ADDED + f.name, f.function, (column(ADDED + f.name),), cast=f.cast) for f in folds]
        both = Group(padded_union(added, was), keys, (*totals, *either(was.columns, keys)))
        made = [
            Named(NEW + a.name, a.combined(old=before(a.name), new=quoted(ADDED + a.name), was=there(OLD)))
            for a in state.accumulators
        ]
        return Filter(extend(both, *made), expression(f"{there(NEW)} OR {there(OLD)}"))

    def _made_anew(self, state: GroupState) -> Operator:
        """Accumulators of the touched groups, from all their rows."""
        keys = state.group.keys
        part = self._keys(f"keys of {state.channel}", state.group.child, keys)
        now = renamed(state.of(restrict(self.new(state.group.child), part, same(keys))), NEW, but=keys)
        was = renamed(restrict(state.scan(), part, same(keys)), OLD, but=keys)
        return Group(padded_union(now, was), keys, (*either(now.columns, keys), *either(was.columns, keys)))

    def _step(self, name: str, op: Operator) -> Ref:
        self.steps.setdefault(name, op)
        return Ref(name, op.columns)

    # -- joins ---------------------------------------------------------------------------------------------------

    def _join(self, op: Join) -> Operator | None:
        if not self.changes(op.left) and not self.changes(op.right):
            return None
        match op.kind:
            case JoinKind.INNER:
                parts = self._inner(op)
            case JoinKind.SEMI | JoinKind.ANTI:
                parts = self._member(op)
            case _:
                parts = self._outer(op)
        return together([select(p, (*op.columns, COUNT)) for p in parts])

    def _inner(self, op: Join) -> list[Operator]:
        left, right = self.change(op.left), self.change(op.right)
        parts: list[Operator] = []
        if left is not None:
            parts.append(replace(op, left=left, right=self.new(op.right)))
        if right is not None:
            parts.append(replace(op, left=self._near(op.left, op, right), right=right))
        return parts

    def _near(self, side: Operator, op: Join, change: Operator) -> Operator:
        """The old left rows that a change on the right can meet; plain rows pass through no lookup."""
        before = self.old(side)
        if not op.keys or light(before):
            return before
        step = self._step(f"keys of {self._label(op)}", distinct(select(change, op.right_keys)))
        return restrict(before, step, op.keys)

    def _member(self, op: Join) -> list[Operator]:
        """Semi and anti joins: left rows that changed, and left rows whose partners came or went."""
        left, right = self.change(op.left), self.change(op.right)
        parts: list[Operator] = []
        if left is not None:
            parts.append(replace(op, left=left, right=self.new(op.right)))
        if right is None:
            return parts
        if op.condition is None and op.keys:
            came = self._membership(op)
            sign = literal(f"-{quoted(COUNT)}") if op.kind is JoinKind.ANTI else column(COUNT)
            met = Join(self.old(op.left), came, JoinKind.INNER, op.keys, safe=op.safe)
            signed = Named(COUNT, Expression(sign.text, frozenset([COUNT])))
            return [*parts, Project(met, (*(Named(c, column(c)) for c in op.columns), signed))]
        return parts + self._both_ways(op, right)

    def _membership(self, op: Join) -> Ref:
        """The right keys that came (+1) and those that went (-1)."""
        name = f"members of {self._label(op)}"
        if name not in self.steps:
            keys = op.right_keys
            part = self._keys(f"keys of {self._label(op)}", op.right, keys)
            now = select(restrict(self.new(op.right), part, same(keys)), keys)
            was = select(restrict(self.old(op.right), part, same(keys)), keys)
            moved = extend(side_by_side(now, was, keys), Named(COUNT, expression(f"CAST({IS} - {WAS} AS BIGINT)")))
            self.steps[name] = select(Filter(moved, expression(f"{COUNT} <> 0")), (*keys, COUNT))
        return Ref(name, (*op.right_keys, COUNT))

    def _both_ways(self, op: Join, right: Operator) -> list[Operator]:
        """With a condition beside the keys, near left rows are asked again: against the new right and the old."""
        near, now, was = self.old(op.left), self.new(op.right), self.old(op.right)
        if op.keys:
            part = self._keys(f"keys of {self._label(op)}", op.right, op.right_keys)
            near = restrict(near, part, op.keys)
            now = restrict(now, part, same(op.right_keys))
            was = restrict(was, part, same(op.right_keys))
        if grows(op):  # its rows stay: those that met nobody before are the change, with nothing to take out again
            alone = replace(op, left=near, right=was, kind=JoinKind.ANTI)
            return [extend(replace(op, left=alone, right=now), _PLUS)]
        return [
            extend(replace(op, left=near, right=now), _PLUS),
            extend(replace(op, left=near, right=was), _MINUS),
        ]

    def _outer(self, op: Join) -> list[Operator]:
        """An outer join is the inner join, and the rows without a partner."""
        parts = self._inner(replace(op, kind=JoinKind.INNER))
        if op.kind in (JoinKind.LEFT, JoinKind.FULL):
            alone = self._member(replace(op, kind=JoinKind.ANTI))
            parts += [padded(p, op.right) for p in alone]
        if op.kind in (JoinKind.RIGHT, JoinKind.FULL):
            alone = self._member(mirrored(op))
            parts += [padded(p, op.left) for p in alone]
        return parts

    def _label(self, op: Join) -> str:
        """Tells joins apart in the names of steps."""
        right = Join(One(), op.right, JoinKind.SEMI, tuple(("_one", r) for r in op.right_keys))
        return f"join {self._joins.setdefault(right, len(self._joins) + 1)}"

    # -- keyed results -------------------------------------------------------------------------------------------

    def touched(self, op: Operator) -> Operator | None:
        """For an operator with a key: the new row of each key that may have changed, or `_deleted`.

        None where this has no short answer; the change says the same.
        """
        match op:
            case Scan():
                if not op.keys or op.channel not in self.changed:
                    return None
                return replace(op, columns=(*op.columns, DELETED), at=At.TOUCHED)
            case Project():
                below = self.touched(op.child) if keys_of(op) else None
                return below and Project(below, (*op.items, Named(DELETED, column(DELETED))))
            case Filter():
                below = self.touched(op.child)
                gone = expression(f"{DELETED} OR NOT COALESCE({op.condition}, FALSE)")
                return below and extend(below, Named(DELETED, gone))
            case Group():
                return self._touched_group(op)
            case Join(kind=JoinKind.INNER | JoinKind.LEFT) if unique_on(op.right, op.right_keys):
                return self._touched_join(op)
            case _:
                return None

    def _touched_group(self, op: Group) -> Operator | None:
        state = self.states.get(op)
        if not isinstance(state, GroupState) or not self.changes(op):
            return None
        if state.plain:
            return extend(self._added(state), Named(DELETED, literal("FALSE")))
        both = Filter(self.groups(state), expression(differs(state)))
        gone = Named(DELETED, expression(f"NOT ({there(NEW)})"))
        return Project(both, (*state.values(NEW), gone))

    def _touched_join(self, op: Join) -> Operator | None:
        """Left rows that changed, and those whose partner did, joined with what the right is now."""
        own = self.touched(op.left)
        if not keys_of(op.left) or (own is None and self.changes(op.left)):
            return None
        partners: Ref | None = None
        if self.changes(op.right):
            if not op.keys:
                return None
            partners = self._keys(f"keys of {self._label(op)}", op.right, op.right_keys)
        return self._with_partners(op, own, partners)

    def _with_partners(self, op: Join, own: Operator | None, partners: Ref | None) -> Operator | None:
        """Changed left rows, and left rows of these partners, with what the right is now; `_deleted` if it is not."""
        key = keys_of(op.left)[0]
        if own is not None:
            own = self._step(f"changed rows {self._numbers.setdefault(op, len(self._numbers) + 1)}", own)
        parts: list[Operator] = [] if own is None else [own]
        sought: list[Operator] = [] if own is None else [as_keys(own, op)]
        if partners is not None:
            near = restrict(self.new(op.left), partners, op.keys)
            if own is not None:
                near = without(near, select(own, key), same(key))
            parts.append(extend(near, Named(DELETED, literal("FALSE"))))
            sought.append(select(partners, op.right_keys))
        rows, wanted = together(parts), together(sought)
        if rows is None or wanted is None:
            return None
        right = self.new(op.right)
        near_right = restrict(right, wanted, same(op.right_keys)) if op.keys else right
        marked = extend(near_right, Named(_HIT, literal("TRUE")))
        joined = Join(rows, marked, JoinKind.LEFT, op.keys, op.condition, op.safe)
        gone = DELETED if op.kind is JoinKind.LEFT else f"{DELETED} OR {_HIT} IS NULL"
        items = tuple(Named(c, column(c)) for c in op.columns)
        return Project(joined, (*items, Named(DELETED, expression(gone))))

    def patched(self, result: Shared) -> Operator | None:
        """For a join of many to one: the left rows that changed, and patches for the partners that did.

        Rows whose partner is new to an inner join were not there before: they are rows, not patches.
        """
        op = result.join
        own = self.touched(op.left)
        partners = self.touched(op.right)
        if (own is None and self.changes(op.left)) or (partners is None and self.changes(op.right)):
            return None
        if partners is None:
            rows = self._with_partners(op, own, None)
            return None if rows is None else as_upserts(result, rows)
        if not result.inner:
            moved = self._step(f"partners of {self._label(op)}", partners)
            rows = self._with_partners(op, own, None)
            return together([*([] if rows is None else [as_upserts(result, rows)]), as_patches(result, moved)])
        moved = self._step(f"partners of {self._label(op)}", self._known(op, partners))
        is_new = f"NOT {DELETED} AND {WAS} IS NULL"
        came = self._step(
            f"new partners of {self._label(op)}", select(Filter(moved, expression(is_new)), op.right_keys)
        )
        rows = self._with_partners(op, own, came)
        patches = as_patches(result, Filter(moved, expression(f"NOT ({is_new})")))
        return patches if rows is None else Union((as_upserts(result, rows), patches))

    def _known(self, op: Join, partners: Operator) -> Operator:
        """Partners that changed, marked if they were there before."""
        keys = op.right_keys
        changed = self._step(f"changed partners of {self._label(op)}", partners)
        before = select(restrict(self.old(op.right), changed, same(keys)), keys)
        marked = extend(before, Named(WAS, literal("TRUE")))
        both = padded_union(changed, marked)
        return Group(both, keys, either((*changed.columns, WAS), keys))
