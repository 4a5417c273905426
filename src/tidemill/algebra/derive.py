"""Derivation: from a query to the query of its change.

Every operator has three derived operators: its content before (`old`), its content now (`new`), and its change
(`change`, as signed rows; None if it cannot have changed). They are operators over the old content, the new content and
the change of each scan. Linear operators pass a change through:

    Δ(filter A) = filter ΔA        Δ(A ∪ B) = ΔA ∪ ΔB        Δ(A ⋈ B) = ΔA ⋈ B_new ∪ A_old ⋈ ΔB

Operators that are not linear read only the keys that the change touches: a group adds to its accumulators or recomputes
them; an anti join determines which of those keys were added and which were removed. A result with a key has a fourth
derived operator (`touched`): the new row of every key that may have changed, which never needs the old rows.

An intermediate result that is used more than once becomes a separate step, computed once.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace

from tidemill.algebra import operators as ops
from tidemill.algebra.expression import build_column, build_literal
from tidemill.algebra.patches import ManyToOneJoin, to_patches, to_upserts
from tidemill.algebra.properties import Key, find_lasting_keys, is_append_only, is_unique_on
from tidemill.algebra.restrict import exclude_rows, restrict_rows
from tidemill.algebra.states import (
    ADDED,
    NEW,
    OLD,
    GroupState,
    ResultState,
    State,
    build_presence_condition,
    cancel_signed_rows,
)
from tidemill.model.change import COUNT, DELETED

_PLUS, _MINUS = {COUNT: build_literal("1L")}, {COUNT: build_literal("-1L")}
_HIT = "_hit"
_EXISTS, _EXISTED = "_is", "_was"
"""Columns that mark whether a key exists now, and existed before."""


class Derivation:
    """The change of one query, given which of its channels changed."""

    def __init__(self, states: Mapping[ops.Operator, State], changed: Collection[str], pinned: Collection[str]) -> None:
        """`pinned` channels are read as they were when last consumed; their newer content is ignored."""
        self.states = states
        self.changed = frozenset(changed) - frozenset(pinned)
        self.pinned = frozenset(pinned)
        self.steps: dict[str, ops.Operator] = {}
        self._changes: dict[ops.Operator, ops.Operator | None] = {}
        self._joins: dict[ops.Operator, int] = {}
        self._numbers: dict[ops.Operator, int] = {}

    # -- content -------------------------------------------------------------------------------------------------

    def derive_old(self, op: ops.Operator) -> ops.Operator:
        """The content when the channels were last consumed."""
        state = self.states.get(op)
        if state is not None:
            return state.finish_rows(state.scan_state())
        if isinstance(op, ops.Scan):
            return replace(op, mode=ops.ScanMode.OLD) if op.channel in self.changed | self.pinned else op
        return ops.map_children(op, self.derive_old)

    def derive_new(self, op: ops.Operator) -> ops.Operator:
        state = self.states.get(op)
        if isinstance(op, ops.Scan):
            return self.derive_old(op) if op.channel in self.pinned else op
        if state is None:
            return ops.map_children(op, self.derive_new)
        if not self.can_change(op):
            return self.derive_old(op)
        return self._renew_state(state)

    def can_change(self, op: ops.Operator) -> bool:
        return self.derive_change(op) is not None

    def _renew_state(self, state: State) -> ops.Operator:
        """The state's rows of untouched keys, and the new rows of touched keys."""
        if isinstance(state, ResultState):
            recomputed = self._recompute_result(state)
            if not state.partition_columns:
                return recomputed
            touched = self._find_touched_partitions(state)
            return ops.Union((exclude_rows(state.scan_state(), touched, ops.pair_columns(touched.columns)), recomputed))
        if state.is_distinct_only:
            return ops.Union((state.scan_state(), self._find_added_rows(state)))
        groups = self.find_touched_groups(state)
        untouched = state.finish_rows(exclude_rows(state.scan_state(), groups, ops.pair_columns(state.group.keys)))
        present = ops.filter_rows(groups, build_presence_condition(NEW))
        return ops.Union((untouched, ops.Projection(present, state.build_result_items(NEW))))

    # -- change --------------------------------------------------------------------------------------------------

    def derive_change(self, op: ops.Operator) -> ops.Operator | None:
        """The change as signed rows: the operator's columns and `_count`."""
        if op not in self._changes:
            self._changes[op] = self._compute_change(op)
        return self._changes[op]

    def _compute_change(self, op: ops.Operator) -> ops.Operator | None:
        match op:
            case ops.Scan():
                if op.channel not in self.changed:
                    return None
                return replace(op, columns=(*op.columns, COUNT), mode=ops.ScanMode.CHANGE)
            case ops.SingleRow() | ops.StepReference() | ops.BlockScan() | ops.CustomMerge():
                return None
            case ops.Union():
                return ops.union_all(map(self.derive_change, op.children))
            case ops.Join():
                return self._derive_join(op)
        below = self.derive_change(op.child)
        if below is None:
            return None
        match op:
            case ops.Projection():
                return ops.Projection(below, (*op.items, *ops.to_items((COUNT,))))
            case ops.Filter():
                return ops.Filter(below, op.condition)
            case ops.Explode():
                exploded = ops.Explode(below, op.generator, op.outputs, op.outer)
                return ops.select_columns(exploded, (*op.columns, COUNT))
        state = self.states[op]
        return self._derive_group(state) if isinstance(state, GroupState) else self._diff_result(state)

    def _derive_group(self, state: GroupState) -> ops.Operator:
        if state.is_distinct_only:
            return ops.add_columns(self._find_added_rows(state), _PLUS)
        groups = self.find_touched_groups(state)
        sides = []
        for prefix, sign in ((OLD, _MINUS), (NEW, _PLUS)):
            condition = f"{build_presence_condition(prefix)} AND {state.build_change_condition()}"
            changed = ops.filter_rows(groups, condition)
            sides.append(ops.Projection(changed, (*state.build_result_items(prefix), *ops.name_values(sign))))
        return ops.Union(tuple(sides))

    def _diff_result(self, state: ResultState) -> ops.Operator:
        """The new result of the touched partitions, less their old result."""
        name = f"change of {state.channel}"
        if name not in self.steps:
            old_rows = self._restrict_to_touched(state.scan_state(), state)
            new_rows = self._recompute_result(state)
            signed = ops.Union((ops.add_columns(new_rows, _PLUS), ops.add_columns(old_rows, _MINUS)))
            self.steps[name] = cancel_signed_rows(signed)
        return ops.StepReference(name, (*state.op.columns, COUNT))

    def _recompute_result(self, state: ResultState) -> ops.Operator:
        return state.build_state(self._restrict_to_touched(self.derive_new(state.op.child), state))

    def _restrict_to_touched(self, rows: ops.Operator, state: ResultState) -> ops.Operator:
        """The rows of the partitions that the change touches; all rows if there is only one."""
        return _restrict_to(rows, self._find_touched_partitions(state)) if state.partition_columns else rows

    def _find_touched_partitions(self, state: ResultState) -> ops.StepReference:
        return self._find_changed_keys(f"partitions of {state.channel}", state.op.child, state.partition_columns)

    def _find_changed_keys(self, name: str, op: ops.Operator, names: Key) -> ops.StepReference:
        """The distinct values of these columns in the changed rows."""
        if name not in self.steps:
            changed = self.find_touched_rows(op) if names in find_lasting_keys(op) else None
            source = changed if changed is not None else self.derive_change(op)
            assert source is not None
            self.steps[name] = ops.select_distinct(ops.select_columns(source, names))
        return ops.StepReference(name, names)

    # -- groups --------------------------------------------------------------------------------------------------

    def _find_added_rows(self, state: GroupState) -> ops.StepReference:
        """The distinct rows that the state does not contain yet."""
        name = f"new rows of {state.channel}"
        if name not in self.steps:
            keys = state.group.keys
            changed_keys = ops.select_columns(self._materialise_change(state.group.child), keys)
            compared = _compare_keys(changed_keys, _restrict_to(state.scan_state(), changed_keys), keys)
            self.steps[name] = ops.select_columns(ops.filter_rows(compared, f"{_EXISTED} = 0"), keys)
        return ops.StepReference(name, state.group.keys)

    def _materialise_change(self, op: ops.Operator) -> ops.Operator:
        """The change, as a step unless it consists of steps already, because it is read more than once."""
        change = self.derive_change(op)
        assert change is not None
        if all(isinstance(o, ops.StepReference | ops.Projection | ops.Filter) for o in ops.walk_operators(change)):
            return change
        return self._add_step(f"change {self._number_operator(op)}", change)

    def find_touched_groups(self, state: GroupState) -> ops.StepReference:
        """One row for each group that may have changed: its keys, its accumulators before and now."""
        name = f"groups of {state.channel}"
        if name not in self.steps:
            can_add = all(a.combine_template is not None for a in state.accumulators)
            adding = state.is_exact or (can_add and is_append_only(state.group.child))
            self.steps[name] = self._add_accumulators(state) if adding else self._recompute_accumulators(state)
        return ops.StepReference(name, self.steps[name].columns)

    def _add_accumulators(self, state: GroupState) -> ops.Operator:
        """The accumulators of the change, added to the old accumulators."""
        change, keys = self._materialise_change(state.group.child), state.group.keys
        calls = [a.signed_call for a in state.accumulators if a.signed_call is not None]
        added = ops.select_columns(change, keys, {ADDED + f.name: f.arguments[0] for f in calls})
        old_state = self._read_old_state(state, ops.select_columns(change, keys))
        totals = [replace(f, name=ADDED + f.name, arguments=(build_column(ADDED + f.name),)) for f in calls]
        values = (*totals, *_take_any_values(old_state.columns, keys))
        groups = ops.Aggregation(ops.union_by_name(added, old_state), keys, values)
        existed, exists = build_presence_condition(OLD), build_presence_condition(NEW)
        combined = {NEW + a.name: a.combine_values(OLD, ADDED, existed) for a in state.accumulators}
        return ops.filter_rows(ops.add_columns(groups, combined), f"{exists} OR {existed}")

    def _recompute_accumulators(self, state: GroupState) -> ops.Operator:
        """The accumulators of the touched groups, recomputed from all of their rows."""
        keys = state.group.keys
        touched_keys = self._find_changed_keys(f"keys of {state.channel}", state.group.child, keys)
        recomputed = state.build_state(_restrict_to(self.derive_new(state.group.child), touched_keys))
        new_state, old_state = ops.prefix_columns(recomputed, NEW, keys), self._read_old_state(state, touched_keys)
        rows = ops.union_by_name(new_state, old_state)
        return ops.Aggregation(rows, keys, _take_any_values(rows.columns, keys))

    def _read_old_state(self, state: GroupState, keys: ops.Operator) -> ops.Operator:
        return ops.prefix_columns(_restrict_to(state.scan_state(), keys), OLD, keys.columns)

    def _number_operator(self, op: ops.Operator) -> int:
        return self._numbers.setdefault(op, len(self._numbers) + 1)

    def _add_step(self, name: str, op: ops.Operator) -> ops.StepReference:
        self.steps.setdefault(name, op)
        return ops.StepReference(name, op.columns)

    # -- joins ---------------------------------------------------------------------------------------------------

    def _derive_join(self, op: ops.Join) -> ops.Operator | None:
        if not self.can_change(op.left) and not self.can_change(op.right):
            return None
        match op.kind:
            case ops.JoinKind.INNER:
                parts = self._derive_inner_join(op)
            case ops.JoinKind.SEMI | ops.JoinKind.ANTI:
                parts = self._derive_semi_join(op)
            case _:
                parts = self._derive_outer_join(op)
        return ops.union_all([ops.select_columns(p, (*op.columns, COUNT)) for p in parts])

    def _derive_inner_join(self, op: ops.Join) -> list[ops.Operator]:
        left, right = self.derive_change(op.left), self.derive_change(op.right)
        parts: list[ops.Operator] = []
        if left is not None:
            parts.append(replace(op, left=left, right=self.derive_new(op.right)))
        if right is not None:
            parts.append(replace(op, left=self._restrict_old_side(op.left, op, right), right=right))
        return parts

    def _restrict_old_side(self, side: ops.Operator, op: ops.Join, change: ops.Operator) -> ops.Operator:
        """The old left rows that a change on the right can join with; bare scans are not restricted."""
        before = self.derive_old(side)
        plain = ops.Scan | ops.Projection | ops.Filter  # restricting these early saves nothing
        if not op.keys or all(isinstance(o, plain) for o in ops.walk_operators(before)):
            return before
        keys = ops.select_distinct(ops.select_columns(change, op.right_keys))
        return restrict_rows(before, self._add_step(f"keys of {self._label_join(op)}", keys), op.keys)

    def _derive_semi_join(self, op: ops.Join) -> list[ops.Operator]:
        """Semi and anti joins: the changed left rows, and the left rows whose partners were added or removed."""
        left, right = self.derive_change(op.left), self.derive_change(op.right)
        parts: list[ops.Operator] = []
        if left is not None:
            parts.append(replace(op, left=left, right=self.derive_new(op.right)))
        if right is None:
            return parts
        if op.condition is None and op.keys:
            members = self._find_membership_changes(op)
            matched = ops.Join(self.derive_old(op.left), members, ops.JoinKind.INNER, op.keys, null_safe=op.null_safe)
            sign = f"-{COUNT}" if op.kind is ops.JoinKind.ANTI else COUNT
            return [*parts, ops.select_columns(matched, op.columns, {COUNT: sign})]
        return parts + self._compare_memberships(op)

    def _find_membership_changes(self, op: ops.Join) -> ops.StepReference:
        """The right keys that were added (+1) and those that were removed (-1)."""
        name = f"members of {self._label_join(op)}"
        if name not in self.steps:
            keys = op.right_keys
            changed_keys = self._find_changed_keys(f"keys of {self._label_join(op)}", op.right, keys)
            new_keys = ops.select_columns(_restrict_to(self.derive_new(op.right), changed_keys), keys)
            old_keys = ops.select_columns(_restrict_to(self.derive_old(op.right), changed_keys), keys)
            number = f"CAST({_EXISTS} - {_EXISTED} AS BIGINT)"
            compared = ops.add_columns(_compare_keys(new_keys, old_keys, keys), {COUNT: number})
            self.steps[name] = ops.select_columns(ops.filter_rows(compared, f"{COUNT} <> 0"), (*keys, COUNT))
        return ops.StepReference(name, (*op.right_keys, COUNT))

    def _compare_memberships(self, op: ops.Join) -> list[ops.Operator]:
        """With a condition beside the keys, affected left rows are joined again with the new and old right side."""
        affected, new_right, old_right = self.derive_old(op.left), self.derive_new(op.right), self.derive_old(op.right)
        if op.keys:
            changed_keys = self._find_changed_keys(f"keys of {self._label_join(op)}", op.right, op.right_keys)
            affected = restrict_rows(affected, changed_keys, op.keys)
            new_right, old_right = (_restrict_to(rows, changed_keys) for rows in (new_right, old_right))
        if is_append_only(op):  # rows are never removed: the change is the rows that had no partner before
            unmatched = replace(op, left=affected, right=old_right, kind=ops.JoinKind.ANTI)
            return [ops.add_columns(replace(op, left=unmatched, right=new_right), _PLUS)]
        return [
            ops.add_columns(replace(op, left=affected, right=new_right), _PLUS),
            ops.add_columns(replace(op, left=affected, right=old_right), _MINUS),
        ]

    def _derive_outer_join(self, op: ops.Join) -> list[ops.Operator]:
        """An outer join is the inner join, and the rows without a partner."""
        parts = self._derive_inner_join(replace(op, kind=ops.JoinKind.INNER))
        mirrored = replace(op, left=op.right, right=op.left, keys=tuple((r, c) for c, r in op.keys))
        for side, outer in ((op, ops.JoinKind.LEFT), (mirrored, ops.JoinKind.RIGHT)):
            if op.kind in (outer, ops.JoinKind.FULL):
                # NULL has the type of the other parts of the union
                nulls = dict.fromkeys(side.right.columns, "NULL")
                unmatched = self._derive_semi_join(replace(side, kind=ops.JoinKind.ANTI))
                parts += [ops.add_columns(p, nulls) for p in unmatched]
        return parts

    def _label_join(self, op: ops.Join) -> str:
        """A label that identifies a join in the names of steps."""
        right = ops.Join(ops.SingleRow(), op.right, ops.JoinKind.SEMI, tuple(("_one", r) for r in op.right_keys))
        return f"join {self._joins.setdefault(right, len(self._joins) + 1)}"

    # -- keyed results -------------------------------------------------------------------------------------------

    def find_touched_rows(self, op: ops.Operator) -> ops.Operator | None:
        """For an operator with a lasting key: the new row of each key that may have changed, or `_deleted`; or None."""
        match op:
            case ops.Scan():
                if not op.keys or op.is_patched or op.channel not in self.changed:
                    return None
                return replace(op, columns=(*op.columns, DELETED), mode=ops.ScanMode.TOUCHED)
            case ops.Projection():
                below = self.find_touched_rows(op.child) if find_lasting_keys(op) else None
                return below and ops.Projection(below, (*op.items, *ops.to_items((DELETED,))))
            case ops.Filter():
                below = self.find_touched_rows(op.child)
                return below and ops.add_columns(below, {DELETED: f"{DELETED} OR NOT COALESCE({op.condition}, FALSE)"})
            case ops.Aggregation():
                return self._find_group_rows(op)
            case ops.Join(kind=ops.JoinKind.INNER | ops.JoinKind.LEFT) if is_unique_on(op.right, op.right_keys):
                return self._find_join_rows(op)
            case _:
                return None

    def _find_group_rows(self, op: ops.Aggregation) -> ops.Operator | None:
        state = self.states.get(op)
        if not isinstance(state, GroupState) or not self.can_change(op):
            return None
        if state.is_distinct_only:
            return ops.add_columns(self._find_added_rows(state), {DELETED: "FALSE"})
        groups = ops.filter_rows(self.find_touched_groups(state), state.build_change_condition())
        deletion = ops.name_values({DELETED: f"NOT ({build_presence_condition(NEW)})"})
        return ops.Projection(groups, (*state.build_result_items(NEW), *deletion))

    def _find_join_rows(self, op: ops.Join) -> ops.Operator | None:
        """The changed left rows and those whose partner changed, joined with the new right side."""
        left_rows = self.find_touched_rows(op.left)
        if not find_lasting_keys(op.left) or (left_rows is None and self.can_change(op.left)):
            return None
        partners: ops.StepReference | None = None
        if self.can_change(op.right):
            if not op.keys:
                return None
            partners = self._find_changed_keys(f"keys of {self._label_join(op)}", op.right, op.right_keys)
        return self._join_partners(op, left_rows, partners)

    def _join_partners(
        self, op: ops.Join, left_rows: ops.Operator | None, partners: ops.StepReference | None
    ) -> ops.Operator | None:
        """The changed left rows and those of these partners, joined anew; `_deleted` if an inner join finds none."""
        key = find_lasting_keys(op.left)[0]
        parts: list[ops.Operator] = []
        key_sets: list[ops.Operator] = []
        if left_rows is not None:
            left_rows = self._add_step(f"changed rows {self._number_operator(op)}", left_rows)
            parts.append(left_rows)
            key_sets.append(ops.Projection(left_rows, ops.name_values({r: build_column(c) for c, r in op.keys})))
        if partners is not None:
            affected = restrict_rows(self.derive_new(op.left), partners, op.keys)
            if left_rows is not None:
                affected = exclude_rows(affected, ops.select_columns(left_rows, key), ops.pair_columns(key))
            parts.append(ops.add_columns(affected, {DELETED: "FALSE"}))
            key_sets.append(ops.select_columns(partners, op.right_keys))
        rows, needed_keys = ops.union_all(parts), ops.union_all(key_sets)
        if rows is None or needed_keys is None:
            return None
        right = self.derive_new(op.right)
        right_rows = _restrict_to(right, needed_keys) if op.keys else right
        marked = ops.add_columns(right_rows, {_HIT: "TRUE"})
        joined = ops.Join(rows, marked, ops.JoinKind.LEFT, op.keys, op.condition, op.null_safe)
        deletion = DELETED if op.kind is ops.JoinKind.LEFT else f"{DELETED} OR {_HIT} IS NULL"
        return ops.select_columns(joined, op.columns, {DELETED: deletion})

    def derive_patches(self, result: ManyToOneJoin) -> ops.Operator | None:
        """For a many-to-one join: the changed left rows, and patches for the changed partners.

        Rows whose partner is new to an inner join were not in the result before: they are rows, not patches.
        """
        op = result.join
        left_rows = self.find_touched_rows(op.left)
        partners = self.find_touched_rows(op.right)
        if (left_rows is None and self.can_change(op.left)) or (partners is None and self.can_change(op.right)):
            return None
        if partners is None:
            rows = self._join_partners(op, left_rows, None)
            return rows and to_upserts(result, rows)
        label, new_partners = self._label_join(op), None
        marked = self._mark_known_partners(op, partners) if result.is_inner else partners
        patched: ops.Operator = self._add_step(f"partners of {label}", marked)
        if result.is_inner:
            is_new = f"NOT {DELETED} AND {_EXISTED} IS NULL"
            new_keys = ops.select_columns(ops.filter_rows(patched, is_new), op.right_keys)
            new_partners = self._add_step(f"new partners of {label}", new_keys)
            patched = ops.filter_rows(patched, f"NOT ({is_new})")
        rows = self._join_partners(op, left_rows, new_partners)
        return ops.union_all((rows and to_upserts(result, rows), to_patches(result, patched)))

    def _mark_known_partners(self, op: ops.Join, partners: ops.Operator) -> ops.Operator:
        """The changed partners, marked if they existed before."""
        keys = op.right_keys
        changed = self._add_step(f"changed partners of {self._label_join(op)}", partners)
        before = restrict_rows(self.derive_old(op.right), changed, ops.pair_columns(keys))
        rows = ops.union_by_name(changed, ops.select_columns(before, keys, {_EXISTED: "TRUE"}))
        return ops.Aggregation(rows, keys, _take_any_values((*changed.columns, _EXISTED), keys))


def _restrict_to(rows: ops.Operator, keys: ops.Operator) -> ops.Operator:
    """The rows that match a row of `keys` in all of its columns."""
    return restrict_rows(rows, keys, ops.pair_columns(keys.columns))


def _compare_keys(new: ops.Operator, old: ops.Operator, keys: Key) -> ops.Operator:
    """The distinct keys of both sides, marked whether they exist now (`_is`) and existed before (`_was`), as 1 or 0."""
    marks = (_EXISTS, _EXISTED)
    calls = tuple(ops.AggregateCall(n, "max", (build_column(n),)) for n in marks)
    return ops.Aggregation(ops.tag_sides(new, old, marks), keys, calls)


def _take_any_values(names: Key, keys: Key) -> tuple[ops.AggregateCall, ...]:
    """The only value that a key has in each column."""
    true, values = build_literal("TRUE"), (n for n in names if n not in keys)
    return tuple(ops.AggregateCall(n, "any_value", (build_column(n), true)) for n in values)
