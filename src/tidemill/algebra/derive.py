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

from tidemill.algebra.expression import Expression, build_column, build_literal, quote_name, to_expression
from tidemill.algebra.operators import (
    AggregateCall,
    Aggregation,
    Explode,
    Filter,
    Join,
    JoinKind,
    NamedExpression,
    Operator,
    Projection,
    Scan,
    ScanMode,
    SingleRow,
    StepReference,
    Union,
    add_columns,
    map_children,
    select_columns,
    select_distinct,
    walk_operators,
)
from tidemill.algebra.patches import ManyToOneJoin, to_patches, to_upserts
from tidemill.algebra.pieces import (
    ADDED,
    IS,
    NEW,
    OLD,
    WAS,
    build_change_condition,
    compare_keys,
    is_scan_only,
    mirror_anti_join,
    pad_partner_columns,
    pair_columns,
    prefix_columns,
    quote_old_column,
    take_any_values,
    to_named_columns,
    to_right_keys,
    union_all,
    union_by_name,
)
from tidemill.algebra.properties import Key, find_keys, is_append_only, is_unique_on
from tidemill.algebra.restrict import exclude_rows, restrict_rows
from tidemill.algebra.states import GroupState, ResultState, State, build_presence_condition, cancel_signed_rows
from tidemill.model.change import COUNT, DELETED

_PLUS, _MINUS = NamedExpression(COUNT, build_literal("1L")), NamedExpression(COUNT, build_literal("-1L"))
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

    def derive_old(self, op: Operator) -> Operator:
        """The content when the channels were last consumed."""
        state = self.states.get(op)
        if state is not None:
            return self._finish_state(state, state.scan_state())
        if isinstance(op, Scan):
            return replace(op, at=ScanMode.OLD) if op.channel in self.changed | self.held else op
        return map_children(op, self.derive_old)

    def derive_new(self, op: Operator) -> Operator:
        """The content now."""
        state = self.states.get(op)
        if isinstance(op, Scan):
            return self.derive_old(op) if op.channel in self.held else op
        if state is None:
            return map_children(op, self.derive_new)
        if not self.can_change(op):
            return self.derive_old(op)
        return self._renew_state(op, state)

    def can_change(self, op: Operator) -> bool:
        """Can anything have changed?"""
        return self.derive_change(op) is not None

    def _finish_state(self, state: State, rows: Operator) -> Operator:
        return state.finish_rows(rows) if isinstance(state, GroupState) and not state.is_distinct_only else rows

    def _renew_state(self, op: Operator, state: State) -> Operator:
        """What the state held of untouched keys, and the new rows of touched ones."""
        if isinstance(state, ResultState):
            fresh = self._recompute_result(state)
            if not state.partition_columns:
                return fresh
            kept = exclude_rows(
                state.scan_state(), self._find_touched_partitions(state), pair_columns(state.partition_columns)
            )
            return Union((kept, fresh))
        if state.is_distinct_only:
            return Union((state.scan_state(), self._find_added_rows(state)))
        both = self.find_touched_groups(state)
        kept = state.finish_rows(exclude_rows(state.scan_state(), both, pair_columns(state.group.keys)))
        return Union(
            (
                kept,
                Projection(Filter(both, to_expression(build_presence_condition(NEW))), state.build_result_items(NEW)),
            )
        )

    # -- change --------------------------------------------------------------------------------------------------

    def derive_change(self, op: Operator) -> Operator | None:
        """What changed, as signed rows: the operator's columns and `_count`."""
        if op not in self._changes:
            self._changes[op] = self._compute_change(op)
        return self._changes[op]

    def _compute_change(self, op: Operator) -> Operator | None:
        match op:
            case Scan():
                if op.channel not in self.changed:
                    return None
                return replace(op, columns=(*op.columns, COUNT), at=ScanMode.CHANGE)
            case SingleRow() | StepReference():
                return None
            case Union():
                parts = [c for c in map(self.derive_change, op.children) if c is not None]
                return union_all(parts)
            case Join():
                return self._derive_join(op)
        below = self.derive_change(op.child)
        if below is None:
            return None
        match op:
            case Projection():
                return Projection(below, (*op.items, NamedExpression(COUNT, build_column(COUNT))))
            case Filter():
                return Filter(below, op.condition)
            case Explode():
                made = Explode(below, op.generator, op.outputs, op.outer)
                return select_columns(made, (*op.columns, COUNT))
        state = self.states[op]
        return self._derive_group(state) if isinstance(state, GroupState) else self._diff_result(state)

    def _derive_group(self, state: GroupState) -> Operator:
        if state.is_distinct_only:
            return add_columns(self._find_added_rows(state), _PLUS)
        both = self.find_touched_groups(state)
        before = Filter(both, to_expression(f"{build_presence_condition(OLD)} AND {build_change_condition(state)}"))
        after = Filter(both, to_expression(f"{build_presence_condition(NEW)} AND {build_change_condition(state)}"))
        return Union(
            (
                Projection(before, (*state.build_result_items(OLD), _MINUS)),
                Projection(after, (*state.build_result_items(NEW), _PLUS)),
            )
        )  # fmt: skip

    def _diff_result(self, state: ResultState) -> Operator:
        """What the touched partitions are made of now, less what they gave before."""
        name = f"change of {state.channel}"
        if name not in self.steps:
            was: Operator = state.scan_state()
            if state.partition_columns:
                was = restrict_rows(was, self._find_touched_partitions(state), pair_columns(state.partition_columns))
            self.steps[name] = cancel_signed_rows(
                Union((add_columns(self._recompute_result(state), _PLUS), add_columns(was, _MINUS)))
            )
        return StepReference(name, (*state.op.columns, COUNT))

    def _recompute_result(self, state: ResultState) -> Operator:
        child = self.derive_new(state.op.child)
        if state.partition_columns:
            child = restrict_rows(child, self._find_touched_partitions(state), pair_columns(state.partition_columns))
        return state.build_state(child)

    def _find_touched_partitions(self, state: ResultState) -> StepReference:
        """The partitions that the change touches."""
        return self._find_changed_keys(f"partitions of {state.channel}", state.op.child, state.partition_columns)

    def _find_changed_keys(self, name: str, op: Operator, names: Key) -> StepReference:
        """The values of some columns in what changed, each once."""
        if name not in self.steps:
            changed = self.find_touched_rows(op) if names in find_keys(op) else None
            source = changed if changed is not None else self.derive_change(op)
            assert source is not None
            self.steps[name] = select_distinct(select_columns(source, names))
        return StepReference(name, names)

    # -- groups --------------------------------------------------------------------------------------------------

    def _find_added_rows(self, state: GroupState) -> StepReference:
        """The distinct rows that were not there yet."""
        name = f"new rows of {state.channel}"
        if name not in self.steps:
            keys = state.group.keys
            seen = select_columns(self._materialise_change(state.group.child), keys)
            met = compare_keys(seen, restrict_rows(state.scan_state(), seen, pair_columns(keys)), keys)
            self.steps[name] = select_columns(Filter(met, to_expression(f"{WAS} = 0")), keys)
        return StepReference(name, state.group.keys)

    def _materialise_change(self, op: Operator) -> Operator:
        """What changed, as a step if it is not made of steps already: it is looked at more than once."""
        change = self.derive_change(op)
        assert change is not None
        if all(isinstance(o, StepReference | Projection | Filter) for o in walk_operators(change)):
            return change
        number = self._numbers.setdefault(op, len(self._numbers) + 1)
        return self._add_step(f"change {number}", change)

    def find_touched_groups(self, state: GroupState) -> StepReference:
        """A row for each group that may have changed: its keys, its accumulators before and now."""
        name = f"groups of {state.channel}"
        if name not in self.steps:
            adding = state.is_exact or (state.is_combinable and is_append_only(state.group.child))
            self.steps[name] = self._add_accumulators(state) if adding else self._recompute_accumulators(state)
        return StepReference(name, self.steps[name].columns)

    def _add_accumulators(self, state: GroupState) -> Operator:
        """Accumulators of the change, added to those before."""
        change, keys = self._materialise_change(state.group.child), state.group.keys
        folds = [a.weighted for a in state.accumulators if a.weighted is not None]
        added = Projection(
            change, (*to_named_columns(keys), *(NamedExpression(ADDED + f.name, f.arguments[0]) for f in folds))
        )
        was = prefix_columns(
            restrict_rows(state.scan_state(), select_columns(change, keys), pair_columns(keys)), OLD, but=keys
        )
        totals = [
            AggregateCall(ADDED + f.name, f.function, (build_column(ADDED + f.name),), cast=f.cast) for f in folds
        ]
        both = Aggregation(union_by_name(added, was), keys, (*totals, *take_any_values(was.columns, keys)))
        made = [
            NamedExpression(
                NEW + a.name,
                a.combine_values(
                    old=quote_old_column(a.name), new=quote_name(ADDED + a.name), was=build_presence_condition(OLD)
                ),
            )
            for a in state.accumulators
        ]
        return Filter(
            add_columns(both, *made),
            to_expression(f"{build_presence_condition(NEW)} OR {build_presence_condition(OLD)}"),
        )

    def _recompute_accumulators(self, state: GroupState) -> Operator:
        """Accumulators of the touched groups, from all their rows."""
        keys = state.group.keys
        part = self._find_changed_keys(f"keys of {state.channel}", state.group.child, keys)
        now = prefix_columns(
            state.build_state(restrict_rows(self.derive_new(state.group.child), part, pair_columns(keys))),
            NEW,
            but=keys,
        )
        was = prefix_columns(restrict_rows(state.scan_state(), part, pair_columns(keys)), OLD, but=keys)
        return Aggregation(
            union_by_name(now, was), keys, (*take_any_values(now.columns, keys), *take_any_values(was.columns, keys))
        )

    def _add_step(self, name: str, op: Operator) -> StepReference:
        self.steps.setdefault(name, op)
        return StepReference(name, op.columns)

    # -- joins ---------------------------------------------------------------------------------------------------

    def _derive_join(self, op: Join) -> Operator | None:
        if not self.can_change(op.left) and not self.can_change(op.right):
            return None
        match op.kind:
            case JoinKind.INNER:
                parts = self._derive_inner_join(op)
            case JoinKind.SEMI | JoinKind.ANTI:
                parts = self._derive_semi_join(op)
            case _:
                parts = self._derive_outer_join(op)
        return union_all([select_columns(p, (*op.columns, COUNT)) for p in parts])

    def _derive_inner_join(self, op: Join) -> list[Operator]:
        left, right = self.derive_change(op.left), self.derive_change(op.right)
        parts: list[Operator] = []
        if left is not None:
            parts.append(replace(op, left=left, right=self.derive_new(op.right)))
        if right is not None:
            parts.append(replace(op, left=self._restrict_old_side(op.left, op, right), right=right))
        return parts

    def _restrict_old_side(self, side: Operator, op: Join, change: Operator) -> Operator:
        """The old left rows that a change on the right can meet; plain rows pass through no lookup."""
        before = self.derive_old(side)
        if not op.keys or is_scan_only(before):
            return before
        step = self._add_step(f"keys of {self._label_join(op)}", select_distinct(select_columns(change, op.right_keys)))
        return restrict_rows(before, step, op.keys)

    def _derive_semi_join(self, op: Join) -> list[Operator]:
        """Semi and anti joins: left rows that changed, and left rows whose partners came or went."""
        left, right = self.derive_change(op.left), self.derive_change(op.right)
        parts: list[Operator] = []
        if left is not None:
            parts.append(replace(op, left=left, right=self.derive_new(op.right)))
        if right is None:
            return parts
        if op.condition is None and op.keys:
            came = self._find_membership_changes(op)
            sign = build_literal(f"-{quote_name(COUNT)}") if op.kind is JoinKind.ANTI else build_column(COUNT)
            met = Join(self.derive_old(op.left), came, JoinKind.INNER, op.keys, safe=op.safe)
            signed = NamedExpression(COUNT, Expression(sign.text, frozenset([COUNT])))
            return [*parts, Projection(met, (*(NamedExpression(c, build_column(c)) for c in op.columns), signed))]
        return parts + self._compare_memberships(op, right)

    def _find_membership_changes(self, op: Join) -> StepReference:
        """The right keys that came (+1) and those that went (-1)."""
        name = f"members of {self._label_join(op)}"
        if name not in self.steps:
            keys = op.right_keys
            part = self._find_changed_keys(f"keys of {self._label_join(op)}", op.right, keys)
            now = select_columns(restrict_rows(self.derive_new(op.right), part, pair_columns(keys)), keys)
            was = select_columns(restrict_rows(self.derive_old(op.right), part, pair_columns(keys)), keys)
            moved = add_columns(
                compare_keys(now, was, keys), NamedExpression(COUNT, to_expression(f"CAST({IS} - {WAS} AS BIGINT)"))
            )
            self.steps[name] = select_columns(Filter(moved, to_expression(f"{COUNT} <> 0")), (*keys, COUNT))
        return StepReference(name, (*op.right_keys, COUNT))

    def _compare_memberships(self, op: Join, right: Operator) -> list[Operator]:
        """With a condition beside the keys, near left rows are asked again: against the new right and the old."""
        near, now, was = self.derive_old(op.left), self.derive_new(op.right), self.derive_old(op.right)
        if op.keys:
            part = self._find_changed_keys(f"keys of {self._label_join(op)}", op.right, op.right_keys)
            near = restrict_rows(near, part, op.keys)
            now = restrict_rows(now, part, pair_columns(op.right_keys))
            was = restrict_rows(was, part, pair_columns(op.right_keys))
        if is_append_only(
            op
        ):  # its rows stay: those that met nobody before are the change, with nothing to take out again
            alone = replace(op, left=near, right=was, kind=JoinKind.ANTI)
            return [add_columns(replace(op, left=alone, right=now), _PLUS)]
        return [
            add_columns(replace(op, left=near, right=now), _PLUS),
            add_columns(replace(op, left=near, right=was), _MINUS),
        ]

    def _derive_outer_join(self, op: Join) -> list[Operator]:
        """An outer join is the inner join, and the rows without a partner."""
        parts = self._derive_inner_join(replace(op, kind=JoinKind.INNER))
        if op.kind in (JoinKind.LEFT, JoinKind.FULL):
            alone = self._derive_semi_join(replace(op, kind=JoinKind.ANTI))
            parts += [pad_partner_columns(p, op.right) for p in alone]
        if op.kind in (JoinKind.RIGHT, JoinKind.FULL):
            alone = self._derive_semi_join(mirror_anti_join(op))
            parts += [pad_partner_columns(p, op.left) for p in alone]
        return parts

    def _label_join(self, op: Join) -> str:
        """Tells joins apart in the names of steps."""
        right = Join(SingleRow(), op.right, JoinKind.SEMI, tuple(("_one", r) for r in op.right_keys))
        return f"join {self._joins.setdefault(right, len(self._joins) + 1)}"

    # -- keyed results -------------------------------------------------------------------------------------------

    def find_touched_rows(self, op: Operator) -> Operator | None:
        """For an operator with a key: the new row of each key that may have changed, or `_deleted`.

        None where this has no short answer; the change says the same.
        """
        match op:
            case Scan():
                if not op.keys or op.channel not in self.changed:
                    return None
                return replace(op, columns=(*op.columns, DELETED), at=ScanMode.TOUCHED)
            case Projection():
                below = self.find_touched_rows(op.child) if find_keys(op) else None
                return below and Projection(below, (*op.items, NamedExpression(DELETED, build_column(DELETED))))
            case Filter():
                below = self.find_touched_rows(op.child)
                gone = to_expression(f"{DELETED} OR NOT COALESCE({op.condition}, FALSE)")
                return below and add_columns(below, NamedExpression(DELETED, gone))
            case Aggregation():
                return self._find_group_rows(op)
            case Join(kind=JoinKind.INNER | JoinKind.LEFT) if is_unique_on(op.right, op.right_keys):
                return self._find_join_rows(op)
            case _:
                return None

    def _find_group_rows(self, op: Aggregation) -> Operator | None:
        state = self.states.get(op)
        if not isinstance(state, GroupState) or not self.can_change(op):
            return None
        if state.is_distinct_only:
            return add_columns(self._find_added_rows(state), NamedExpression(DELETED, build_literal("FALSE")))
        both = Filter(self.find_touched_groups(state), to_expression(build_change_condition(state)))
        gone = NamedExpression(DELETED, to_expression(f"NOT ({build_presence_condition(NEW)})"))
        return Projection(both, (*state.build_result_items(NEW), gone))

    def _find_join_rows(self, op: Join) -> Operator | None:
        """Left rows that changed, and those whose partner did, joined with what the right is now."""
        own = self.find_touched_rows(op.left)
        if not find_keys(op.left) or (own is None and self.can_change(op.left)):
            return None
        partners: StepReference | None = None
        if self.can_change(op.right):
            if not op.keys:
                return None
            partners = self._find_changed_keys(f"keys of {self._label_join(op)}", op.right, op.right_keys)
        return self._join_partners(op, own, partners)

    def _join_partners(self, op: Join, own: Operator | None, partners: StepReference | None) -> Operator | None:
        """Changed left rows, and left rows of these partners, with what the right is now; `_deleted` if it is not."""
        key = find_keys(op.left)[0]
        if own is not None:
            own = self._add_step(f"changed rows {self._numbers.setdefault(op, len(self._numbers) + 1)}", own)
        parts: list[Operator] = [] if own is None else [own]
        sought: list[Operator] = [] if own is None else [to_right_keys(own, op)]
        if partners is not None:
            near = restrict_rows(self.derive_new(op.left), partners, op.keys)
            if own is not None:
                near = exclude_rows(near, select_columns(own, key), pair_columns(key))
            parts.append(add_columns(near, NamedExpression(DELETED, build_literal("FALSE"))))
            sought.append(select_columns(partners, op.right_keys))
        rows, wanted = union_all(parts), union_all(sought)
        if rows is None or wanted is None:
            return None
        right = self.derive_new(op.right)
        near_right = restrict_rows(right, wanted, pair_columns(op.right_keys)) if op.keys else right
        marked = add_columns(near_right, NamedExpression(_HIT, build_literal("TRUE")))
        joined = Join(rows, marked, JoinKind.LEFT, op.keys, op.condition, op.safe)
        gone = DELETED if op.kind is JoinKind.LEFT else f"{DELETED} OR {_HIT} IS NULL"
        items = tuple(NamedExpression(c, build_column(c)) for c in op.columns)
        return Projection(joined, (*items, NamedExpression(DELETED, to_expression(gone))))

    def derive_patches(self, result: ManyToOneJoin) -> Operator | None:
        """For a join of many to one: the left rows that changed, and patches for the partners that did.

        Rows whose partner is new to an inner join were not there before: they are rows, not patches.
        """
        op = result.join
        own = self.find_touched_rows(op.left)
        partners = self.find_touched_rows(op.right)
        if (own is None and self.can_change(op.left)) or (partners is None and self.can_change(op.right)):
            return None
        if partners is None:
            rows = self._join_partners(op, own, None)
            return None if rows is None else to_upserts(result, rows)
        if not result.is_inner:
            moved = self._add_step(f"partners of {self._label_join(op)}", partners)
            rows = self._join_partners(op, own, None)
            return union_all([*([] if rows is None else [to_upserts(result, rows)]), to_patches(result, moved)])
        moved = self._add_step(f"partners of {self._label_join(op)}", self._mark_known_partners(op, partners))
        is_new = f"NOT {DELETED} AND {WAS} IS NULL"
        came = self._add_step(
            f"new partners of {self._label_join(op)}",
            select_columns(Filter(moved, to_expression(is_new)), op.right_keys),
        )
        rows = self._join_partners(op, own, came)
        patches = to_patches(result, Filter(moved, to_expression(f"NOT ({is_new})")))
        return patches if rows is None else Union((to_upserts(result, rows), patches))

    def _mark_known_partners(self, op: Join, partners: Operator) -> Operator:
        """Partners that changed, marked if they were there before."""
        keys = op.right_keys
        changed = self._add_step(f"changed partners of {self._label_join(op)}", partners)
        before = select_columns(restrict_rows(self.derive_old(op.right), changed, pair_columns(keys)), keys)
        marked = add_columns(before, NamedExpression(WAS, build_literal("TRUE")))
        both = union_by_name(changed, marked)
        return Aggregation(both, keys, take_any_values((*changed.columns, WAS), keys))
