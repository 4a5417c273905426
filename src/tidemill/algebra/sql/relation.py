"""A relation under translation: an operator, and what is known of its columns' types."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from sqlglot import exp

from tidemill.algebra.operators import Filter, Join, JoinKind, NamedExpression, Operator, add_columns, rename_columns
from tidemill.algebra.sql.reading import to_operator_expression
from tidemill.algebra.typing import infer_type


@dataclass(frozen=True, slots=True)
class TypedRelation:
    op: Operator
    types: Mapping[str, str] = field(default_factory=dict)

    @property
    def columns(self) -> tuple[str, ...]:
        return self.op.columns

    def has_columns(self, tree: exp.Expr) -> bool:
        """Does the expression use this relation's columns alone?"""
        return list_columns(tree) <= set(self.columns)

    def rename_columns(self, names: Mapping[str, str]) -> TypedRelation:
        types = {names[c]: t for c, t in self.types.items() if c in names}
        return TypedRelation(rename_columns(self.op, dict(names)), types)

    def filter_rows(self, conditions: list[exp.Expr]) -> TypedRelation:
        op = self.op
        for condition in conditions:
            op = Filter(op, to_operator_expression(condition.copy()))
        return replace(self, op=op)

    def add_columns(self, items: Mapping[str, exp.Expr]) -> TypedRelation:
        """With further columns, computed."""
        if not items:
            return self
        made = [NamedExpression(n, to_operator_expression(t.copy())) for n, t in items.items()]
        types = {n: infer_type(t, self.types) for n, t in items.items()}
        return TypedRelation(add_columns(self.op, *made), {**self.types, **types})


class NameGenerator:
    """Makes column names that no query can have written."""

    def __init__(self) -> None:
        self._used = 0

    def generate_name(self, stem: str) -> str:
        self._used += 1
        return f"_{stem}{self._used}"


def list_columns(tree: exp.Expr) -> set[str]:
    return {c.name for c in tree.find_all(exp.Column)}


def build_column_tree(name: str) -> exp.Column:
    return exp.Column(this=exp.Identifier(this=name, quoted=True))


def replace_columns(tree: exp.Expr, names: Mapping[str, str]) -> exp.Expr:
    """The expression over other column names."""
    made = tree.copy()
    for found in list(made.find_all(exp.Column)):
        if found.name in names:
            found.this.set("this", names[found.name])
    return made


def join_relations(
    left: TypedRelation, right: TypedRelation, kind: JoinKind, conditions: list[exp.Expr], names: NameGenerator
) -> TypedRelation:
    """Join on conditions: equalities between the sides become keys, the rest a condition or filters below."""
    left, right, rest = _push_conditions(left, right, kind, conditions)
    keys: dict[str, tuple[exp.Expr, exp.Expr]] = {}
    others: list[exp.Expr] = []
    safe = bool(rest) and all(isinstance(c, exp.NullSafeEQ) for c in rest if _split_equality(c, left, right))
    for each in rest:
        sides = _split_equality(each, left, right)
        if sides is not None and isinstance(each, exp.NullSafeEQ) == safe:
            keys[each.sql()] = sides
        else:
            others.append(each)
    on: list[tuple[str, str]] = []
    more: tuple[dict[str, exp.Expr], dict[str, exp.Expr]] = ({}, {})
    for a, b in keys.values():
        on.append((_add_key(a, more[0], names), _add_key(b, more[1], names)))
    left, right = left.add_columns(more[0]), right.add_columns(more[1])
    condition = to_operator_expression(exp.and_(*(c.copy() for c in others), copy=False)) if others else None
    op = Join(left.op, right.op, kind, tuple(dict.fromkeys(on)), condition, safe)
    types = left.types if kind in (JoinKind.SEMI, JoinKind.ANTI) else {**left.types, **right.types}
    return TypedRelation(op, types)


def _push_conditions(
    left: TypedRelation, right: TypedRelation, kind: JoinKind, conditions: list[exp.Expr]
) -> tuple[TypedRelation, TypedRelation, list[exp.Expr]]:
    """Conditions on one side alone filter that side, where the kind of join allows it."""
    down_left = kind in (JoinKind.INNER, JoinKind.SEMI, JoinKind.RIGHT)
    down_right = kind in (JoinKind.INNER, JoinKind.SEMI, JoinKind.ANTI, JoinKind.LEFT)
    lefts = [c for c in conditions if down_left and list_columns(c) and left.has_columns(c)]
    rights = [c for c in conditions if down_right and list_columns(c) and right.has_columns(c) and c not in lefts]
    rest = [c for c in conditions if not any(c is d for d in (*lefts, *rights))]
    return left.filter_rows(lefts), right.filter_rows(rights), rest


def _split_equality(condition: exp.Expr, left: TypedRelation, right: TypedRelation) -> tuple[exp.Expr, exp.Expr] | None:
    if not isinstance(condition, exp.EQ | exp.NullSafeEQ):
        return None
    a, b = condition.this.unnest(), condition.expression.unnest()
    for one, other in ((a, b), (b, a)):
        if list_columns(one) and list_columns(other) and left.has_columns(one) and right.has_columns(other):
            return one, other
    return None


def _add_key(tree: exp.Expr, more: dict[str, exp.Expr], names: NameGenerator) -> str:
    if isinstance(tree, exp.Column):
        return tree.name
    name = names.generate_name("key")
    more[name] = tree
    return name


def join_all(
    relations: list[TypedRelation], conditions: list[exp.Expr], names: NameGenerator
) -> tuple[TypedRelation, list[exp.Expr]]:
    """Inner joins in an order in which each has a condition, if there is one; returns the conditions left over."""
    pending = list(conditions)
    done, *waiting = [_apply_own_conditions(r, pending) for r in relations]
    while waiting:
        nearest = next((r for r in waiting if any(_split_equality(c, done, r) for c in pending)), waiting[0])
        waiting.remove(nearest)
        usable = [c for c in pending if list_columns(c) and list_columns(c) <= {*done.columns, *nearest.columns}]
        pending = [c for c in pending if not any(c is u for u in usable)]
        done = join_relations(done, nearest, JoinKind.INNER, usable, names)
    return done, pending


def _apply_own_conditions(relation: TypedRelation, pending: list[exp.Expr]) -> TypedRelation:
    """The relation with the conditions that are on it alone, which are taken from `pending`."""
    own = [c for c in pending if list_columns(c) and relation.has_columns(c)]
    pending[:] = [c for c in pending if not any(c is o for o in own)]
    return relation.filter_rows(own)
