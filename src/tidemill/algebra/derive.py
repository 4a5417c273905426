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

from collections.abc import Collection, Mapping, Sequence
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
    rename,
    select,
    walk,
)
from tidemill.algebra.patches import Shared
from tidemill.algebra.properties import Key, grows, keys_of, unique_on
from tidemill.algebra.restrict import restrict, without
from tidemill.algebra.states import GroupState, ResultState, State, net, there
from tidemill.model.change import COUNT, DELETED, PATCH

_PLUS, _MINUS = Named(COUNT, literal("1L")), Named(COUNT, literal("-1L"))
_NEW, _OLD, ADDED = "new.", "old.", "added."
_HIT, _IS, _WAS = "_hit", "_is", "_was"


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
            kept = without(state.scan(), self._partitions(state), _same(state.partition))
            return Union((kept, fresh))
        if state.plain:
            return Union((state.scan(), self._added(state)))
        both = self.groups(state)
        kept = state.finished(without(state.scan(), both, _same(state.group.keys)))
        return Union((kept, Project(Filter(both, expression(there(_NEW))), state.values(_NEW))))

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
                return _all(parts)
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
        before = Filter(both, expression(f"{there(_OLD)} AND {_differs(state)}"))
        after = Filter(both, expression(f"{there(_NEW)} AND {_differs(state)}"))
        return Union(
            (Project(before, (*state.values(_OLD), _MINUS)), Project(after, (*state.values(_NEW), _PLUS)))
        )  # fmt: skip

    def _recomputed(self, state: ResultState) -> Operator:
        """What the touched partitions are made of now, less what they gave before."""
        name = f"change of {state.channel}"
        if name not in self.steps:
            was: Operator = state.scan()
            if state.partition:
                was = restrict(was, self._partitions(state), _same(state.partition))
            self.steps[name] = net(Union((extend(self._fresh(state), _PLUS), extend(was, _MINUS))))
        return Ref(name, (*state.op.columns, COUNT))

    def _fresh(self, state: ResultState) -> Operator:
        child = self.new(state.op.child)
        if state.partition:
            child = restrict(child, self._partitions(state), _same(state.partition))
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
            met = _side_by_side(seen, restrict(state.scan(), seen, _same(keys)), keys)
            self.steps[name] = select(Filter(met, expression(f"{_WAS} = 0")), keys)
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
        added = Project(change, (*_columns(keys), *(Named(ADDED + f.name, f.arguments[0]) for f in folds)))
        was = _renamed(restrict(state.scan(), select(change, keys), _same(keys)), _OLD, but=keys)
        totals = [Fold(ADDED + f.name, f.function, (column(ADDED + f.name),), cast=f.cast) for f in folds]
        both = Group(_padded_union(added, was), keys, (*totals, *_either(was.columns, keys)))
        made = [
            Named(_NEW + a.name, expression((a.combine or "").format(old=_before(a.name), new=quoted(ADDED + a.name))))
            for a in state.accumulators
        ]
        return Filter(extend(both, *made), expression(f"{there(_NEW)} OR {there(_OLD)}"))

    def _made_anew(self, state: GroupState) -> Operator:
        """Accumulators of the touched groups, from all their rows."""
        keys = state.group.keys
        part = self._keys(f"keys of {state.channel}", state.group.child, keys)
        now = _renamed(state.of(restrict(self.new(state.group.child), part, _same(keys))), _NEW, but=keys)
        was = _renamed(restrict(state.scan(), part, _same(keys)), _OLD, but=keys)
        return Group(_padded_union(now, was), keys, (*_either(now.columns, keys), *_either(was.columns, keys)))

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
        return _all([select(p, (*op.columns, COUNT)) for p in parts])

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
        if not op.keys or _light(before):
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
            now = select(restrict(self.new(op.right), part, _same(keys)), keys)
            was = select(restrict(self.old(op.right), part, _same(keys)), keys)
            moved = extend(_side_by_side(now, was, keys), Named(COUNT, expression(f"CAST({_IS} - {_WAS} AS BIGINT)")))
            self.steps[name] = select(Filter(moved, expression(f"{COUNT} <> 0")), (*keys, COUNT))
        return Ref(name, (*op.right_keys, COUNT))

    def _both_ways(self, op: Join, right: Operator) -> list[Operator]:
        """With a condition beside the keys, near left rows are asked again: against the new right and the old."""
        near, now, was = self.old(op.left), self.new(op.right), self.old(op.right)
        if op.keys:
            part = self._keys(f"keys of {self._label(op)}", op.right, op.right_keys)
            near = restrict(near, part, op.keys)
            now = restrict(now, part, _same(op.right_keys))
            was = restrict(was, part, _same(op.right_keys))
        return [
            extend(replace(op, left=near, right=now), _PLUS),
            extend(replace(op, left=near, right=was), _MINUS),
        ]

    def _outer(self, op: Join) -> list[Operator]:
        """An outer join is the inner join, and the rows without a partner."""
        parts = self._inner(replace(op, kind=JoinKind.INNER))
        if op.kind in (JoinKind.LEFT, JoinKind.FULL):
            alone = self._member(replace(op, kind=JoinKind.ANTI))
            parts += [_padded(p, op.right) for p in alone]
        if op.kind in (JoinKind.RIGHT, JoinKind.FULL):
            alone = self._member(_mirrored(op))
            parts += [_padded(p, op.left) for p in alone]
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
        both = Filter(self.groups(state), expression(_differs(state)))
        gone = Named(DELETED, expression(f"NOT ({there(_NEW)})"))
        return Project(both, (*state.values(_NEW), gone))

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
            own = self._step(f"changed rows of {self._label(op)}", own)
        parts: list[Operator] = [] if own is None else [own]
        sought: list[Operator] = [] if own is None else [_as_keys(own, op)]
        if partners is not None:
            near = restrict(self.new(op.left), partners, op.keys)
            if own is not None:
                near = without(near, select(own, key), _same(key))
            parts.append(extend(near, Named(DELETED, literal("FALSE"))))
            sought.append(select(partners, op.right_keys))
        rows, wanted = _all(parts), _all(sought)
        if rows is None or wanted is None:
            return None
        near_right = restrict(self.new(op.right), wanted, _same(op.right_keys))
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
            return None if rows is None else _as_upserts(result, rows)
        if not result.inner:
            moved = self._step(f"partners of {self._label(op)}", partners)
            rows = self._with_partners(op, own, None)
            return _all([*([] if rows is None else [_as_upserts(result, rows)]), _as_patches(result, moved)])
        moved = self._step(f"partners of {self._label(op)}", self._known(op, partners))
        is_new = f"NOT {DELETED} AND {_WAS} IS NULL"
        came = self._step(
            f"new partners of {self._label(op)}", select(Filter(moved, expression(is_new)), op.right_keys)
        )
        rows = self._with_partners(op, own, came)
        patches = _as_patches(result, Filter(moved, expression(f"NOT ({is_new})")))
        return patches if rows is None else Union((_as_upserts(result, rows), patches))

    def _known(self, op: Join, partners: Operator) -> Operator:
        """Partners that changed, marked if they were there before."""
        keys = op.right_keys
        changed = self._step(f"changed partners of {self._label(op)}", partners)
        before = select(restrict(self.old(op.right), changed, _same(keys)), keys)
        marked = extend(before, Named(_WAS, literal("TRUE")))
        both = _padded_union(changed, marked)
        return Group(both, keys, _either((*changed.columns, _WAS), keys))


def _as_upserts(result: Shared, rows: Operator) -> Operator:
    marks = (Named(DELETED, column(DELETED)), Named(PATCH, literal("FALSE")))
    return Project(rows, (*result.items, *marks))


def _as_patches(result: Shared, partners: Operator) -> Operator:
    """A partner's values for all its rows. Without it, an outer join's rows have none; an inner join has no rows."""
    known = Filter(partners, expression(" AND ".join(f"{quoted(k)} IS NOT NULL" for k in result.by.values())))
    items: list[Named] = []
    for item in result.items:
        if item.name in result.by:
            items.append(Named(item.name, column(result.by[item.name])))
        elif item.name in result.columns:
            value = result.columns[item.name]
            items.append(Named(item.name, expression(f"CASE WHEN NOT {DELETED} THEN {value} END")))
        else:
            items.append(Named(item.name, literal("NULL")))
    gone = column(DELETED) if result.inner else literal("FALSE")
    return Project(known, (*items, Named(DELETED, gone), Named(PATCH, literal("TRUE"))))


def _light(op: Operator) -> bool:
    """Is there nothing between its scans and its rows that a restriction would spare?"""
    return all(isinstance(o, Scan | Project | Filter) for o in walk(op))


def _all(parts: Sequence[Operator]) -> Operator | None:
    if not parts:
        return None
    return parts[0] if len(parts) == 1 else Union(tuple(parts))


def _same(names: Key) -> tuple[tuple[str, str], ...]:
    return tuple((n, n) for n in names)


def _renamed(op: Operator, prefix: str, but: Key = ()) -> Project:
    return rename(op, {c: c if c in but else prefix + c for c in op.columns})


def _side_by_side(now: Operator, was: Operator, keys: Key) -> Operator:
    """The keys of either side once, with whether they are now (`_is`) and were before (`_was`), as 1 or 0."""
    sides = [
        extend(rows, Named(_IS, literal(f"{1 - i}")), Named(_WAS, literal(f"{i}"))) for i, rows in enumerate((now, was))
    ]
    return Group(Union(tuple(sides)), keys, tuple(Fold(n, "max", (column(n),)) for n in (_IS, _WAS)))


def _padded_union(left: Operator, right: Operator) -> Operator:
    """All rows of both; what one side has not is NULL."""
    names = tuple(dict.fromkeys((*left.columns, *right.columns)))
    return Union(tuple(_with_all(side, names) for side in (left, right)))


def _with_all(op: Operator, names: Key) -> Operator:
    have = set(op.columns)
    return Project(op, tuple(Named(n, column(n) if n in have else literal("NULL")) for n in names))


def _either(names: Key, keys: Key) -> tuple[Fold, ...]:
    """The one value that a key has in each column."""
    return tuple(Fold(n, "any_value", (column(n), literal("TRUE"))) for n in names if n not in keys)


def _as_keys(rows: Operator, op: Join) -> Operator:
    """The keys of left rows, named as the right names them."""
    return Project(rows, tuple(Named(r, column(c)) for c, r in op.keys))


def _columns(names: Key, prefix: str = "") -> tuple[Named, ...]:
    return tuple(Named(prefix + n, column(prefix + n)) for n in names)


def _before(name: str) -> str:
    return quoted(_OLD + name)


def _differs(state: GroupState) -> str:
    """Is any accumulator other than before? Rows alone may differ without changing what is shown."""
    shown = [a.name for k in state.kept for a in k.accumulators]
    pairs = [f"NOT ({quoted(_NEW + n)} <=> {quoted(_OLD + n)})" for n in shown]
    return "(" + " OR ".join([*pairs, f"({there(_NEW)}) <> ({there(_OLD)})"]) + ")"


def _padded(rows: Operator, lacking: Operator) -> Operator:
    """Rows without a partner: the other side's columns are NULL. Their types are those of the union they go into."""
    return extend(rows, *(Named(c, literal("NULL")) for c in lacking.columns))


def _mirrored(op: Join) -> Join:
    swapped = tuple((r, c) for c, r in op.keys)
    return Join(op.right, op.left, JoinKind.ANTI, swapped, op.condition, op.safe)
