"""A relation under translation: an operator, and what is known of its columns' types."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from sqlglot import exp

from tidemill.algebra.operators import Filter, Join, JoinKind, Named, Operator, extend, rename
from tidemill.algebra.sql.reading import expressed
from tidemill.algebra.typing import type_of


@dataclass(frozen=True, slots=True)
class Relation:
    op: Operator
    types: Mapping[str, str] = field(default_factory=dict)

    @property
    def columns(self) -> tuple[str, ...]:
        return self.op.columns

    def has(self, tree: exp.Expr) -> bool:
        """Does the expression use this relation's columns alone?"""
        return columns_of(tree) <= set(self.columns)

    def renamed(self, names: Mapping[str, str]) -> Relation:
        types = {names[c]: t for c, t in self.types.items() if c in names}
        return Relation(rename(self.op, dict(names)), types)

    def filtered(self, conditions: list[exp.Expr]) -> Relation:
        op = self.op
        for condition in conditions:
            op = Filter(op, expressed(condition.copy()))
        return replace(self, op=op)

    def extended(self, items: Mapping[str, exp.Expr]) -> Relation:
        """With further columns, computed."""
        if not items:
            return self
        made = [Named(n, expressed(t.copy())) for n, t in items.items()]
        types = {n: type_of(t, self.types) for n, t in items.items()}
        return Relation(extend(self.op, *made), {**self.types, **types})


class Names:
    """Makes column names that no query can have written."""

    def __init__(self) -> None:
        self._used = 0

    def fresh(self, stem: str) -> str:
        self._used += 1
        return f"_{stem}{self._used}"


def columns_of(tree: exp.Expr) -> set[str]:
    return {c.name for c in tree.find_all(exp.Column)}


def column_tree(name: str) -> exp.Column:
    return exp.Column(this=exp.Identifier(this=name, quoted=True))


def replaced(tree: exp.Expr, names: Mapping[str, str]) -> exp.Expr:
    """The expression over other column names."""
    made = tree.copy()
    for found in list(made.find_all(exp.Column)):
        if found.name in names:
            found.this.set("this", names[found.name])
    return made


def join(left: Relation, right: Relation, kind: JoinKind, conditions: list[exp.Expr], names: Names) -> Relation:
    """Join on conditions: equalities between the sides become keys, the rest a condition or filters below."""
    left, right, rest = _sink(left, right, kind, conditions)
    keys: dict[str, tuple[exp.Expr, exp.Expr]] = {}
    others: list[exp.Expr] = []
    safe = bool(rest) and all(isinstance(c, exp.NullSafeEQ) for c in rest if _sides(c, left, right))
    for each in rest:
        sides = _sides(each, left, right)
        if sides is not None and isinstance(each, exp.NullSafeEQ) == safe:
            keys[each.sql()] = sides
        else:
            others.append(each)
    on: list[tuple[str, str]] = []
    more: tuple[dict[str, exp.Expr], dict[str, exp.Expr]] = ({}, {})
    for a, b in keys.values():
        on.append((_key(a, more[0], names), _key(b, more[1], names)))
    left, right = left.extended(more[0]), right.extended(more[1])
    condition = expressed(exp.and_(*(c.copy() for c in others), copy=False)) if others else None
    op = Join(left.op, right.op, kind, tuple(dict.fromkeys(on)), condition, safe)
    types = left.types if kind in (JoinKind.SEMI, JoinKind.ANTI) else {**left.types, **right.types}
    return Relation(op, types)


def _sink(
    left: Relation, right: Relation, kind: JoinKind, conditions: list[exp.Expr]
) -> tuple[Relation, Relation, list[exp.Expr]]:
    """Conditions on one side alone filter that side, where the kind of join allows it."""
    down_left = kind in (JoinKind.INNER, JoinKind.SEMI, JoinKind.RIGHT)
    down_right = kind in (JoinKind.INNER, JoinKind.SEMI, JoinKind.ANTI, JoinKind.LEFT)
    lefts = [c for c in conditions if down_left and columns_of(c) and left.has(c)]
    rights = [c for c in conditions if down_right and columns_of(c) and right.has(c) and c not in lefts]
    rest = [c for c in conditions if not any(c is d for d in (*lefts, *rights))]
    return left.filtered(lefts), right.filtered(rights), rest


def _sides(condition: exp.Expr, left: Relation, right: Relation) -> tuple[exp.Expr, exp.Expr] | None:
    if not isinstance(condition, exp.EQ | exp.NullSafeEQ):
        return None
    a, b = condition.this.unnest(), condition.expression.unnest()
    for one, other in ((a, b), (b, a)):
        if columns_of(one) and columns_of(other) and left.has(one) and right.has(other):
            return one, other
    return None


def _key(tree: exp.Expr, more: dict[str, exp.Expr], names: Names) -> str:
    if isinstance(tree, exp.Column):
        return tree.name
    name = names.fresh("key")
    more[name] = tree
    return name


def all_joined(relations: list[Relation], conditions: list[exp.Expr], names: Names) -> tuple[Relation, list[exp.Expr]]:
    """Inner joins in an order in which each has a condition, if there is one; returns the conditions left over."""
    pending = list(conditions)
    done, *waiting = [_narrowed(r, pending) for r in relations]
    while waiting:
        nearest = next((r for r in waiting if any(_sides(c, done, r) for c in pending)), waiting[0])
        waiting.remove(nearest)
        usable = [c for c in pending if columns_of(c) and columns_of(c) <= {*done.columns, *nearest.columns}]
        pending = [c for c in pending if not any(c is u for u in usable)]
        done = join(done, nearest, JoinKind.INNER, usable, names)
    return done, pending


def _narrowed(relation: Relation, pending: list[exp.Expr]) -> Relation:
    """The relation with the conditions that are on it alone, which are taken from `pending`."""
    own = [c for c in pending if columns_of(c) and relation.has(c)]
    pending[:] = [c for c in pending if not any(c is o for o in own)]
    return relation.filtered(own)
