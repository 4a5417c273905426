"""Relations with types: the inputs of a query, its result, and every relation in between."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from sqlglot import exp

from tidemill.algebra import operators as ops
from tidemill.algebra.dialect import to_sql
from tidemill.algebra.sql.reading import NotIncremental, to_operator_expression
from tidemill.algebra.typing import infer_type
from tidemill.model.schema import Field, Schema

Trees = Mapping[str, exp.Expr]
"""Expressions by the names of their columns, or by their texts."""


@dataclass(frozen=True, slots=True)
class TypedRelation:
    """An operator and the types of its columns; "" or no type if it is not known."""

    op: ops.Operator
    types: Mapping[str, str] = field(default_factory=dict)

    @property
    def columns(self) -> tuple[str, ...]:
        return self.op.columns

    def find_schema(self) -> Schema | None:
        """The columns with their types; None unless all are known."""
        return None if "" in self.types.values() else Schema(tuple(Field(c, t) for c, t in self.types.items()))

    def has_columns(self, tree: exp.Expr) -> bool:
        return list_columns(tree) <= set(self.columns)

    def rename_columns(self, names: Mapping[str, str]) -> TypedRelation:
        types = {names[c]: t for c, t in self.types.items() if c in names}
        return TypedRelation(ops.rename_columns(self.op, dict(names)), types)

    def filter_rows(self, conditions: list[exp.Expr]) -> TypedRelation:
        op = self.op
        for condition in conditions:
            op = ops.Filter(op, to_operator_expression(condition.copy()))
        return replace(self, op=op)

    def add_columns(self, items: Trees) -> TypedRelation:
        if not items:
            return self
        computed = {n: to_operator_expression(t.copy()) for n, t in items.items()}
        types = {n: infer_type(t, self.types) for n, t in items.items()}
        return TypedRelation(ops.add_columns(self.op, computed), {**self.types, **types})


def scan_channel(
    channel: str,
    types: Mapping[str, str],
    keys: tuple[str, ...] = (),
    append_only: bool = False,
    is_patched: bool = False,
) -> TypedRelation:
    return TypedRelation(ops.Scan(channel, tuple(types), ops.ScanMode.NEW, keys, append_only, is_patched), types)


def find_source(name: str, sources: Mapping[str, TypedRelation]) -> TypedRelation:
    source = sources.get(name)
    if source is None:
        raise NotIncremental(f"the columns of {name} are not known before it is written; declare its schema")
    return source


class NameGenerator:
    """Generates column names that no query can contain."""

    def __init__(self) -> None:
        self._count = 0

    def generate_name(self, stem: str) -> str:
        self._count += 1
        return f"_{stem}{self._count}"


def list_columns(tree: exp.Expr) -> set[str]:
    return {c.name for c in tree.find_all(exp.Column)}


def build_column_tree(name: str) -> exp.Column:
    return exp.Column(this=exp.Identifier(this=name, quoted=True))


def replace_columns(tree: exp.Expr, names: Mapping[str, str]) -> exp.Expr:
    copy = tree.copy()
    for column in list(copy.find_all(exp.Column)):
        if column.name in names:
            column.this.set("this", names[column.name])
    return copy


def substitute_columns(tree: exp.Expr, columns: Mapping[str, str]) -> exp.Expr:
    """The expression with sub-expressions replaced by the columns that hold them, except inside a sub-query."""

    def swap_node(node: exp.Expr) -> exp.Expr:
        name = columns.get(to_sql(node))
        return node if name is None or _is_of_subquery(node) else build_column_tree(name)

    return tree.copy().transform(swap_node)


def _is_of_subquery(node: exp.Expr) -> bool:
    """Whether the node is inside a sub-query and refers to its tables, which hide outer ones of the same name."""
    tables: set[str] = set()
    select = node.find_ancestor(exp.Select)
    while select is not None:
        from_ = select.args.get("from_")
        sources = [*([from_] if from_ else []), *(select.args.get("joins") or [])]
        tables |= {source.this.alias_or_name for source in sources}
        select = select.find_ancestor(exp.Select)
    used = {c.name.partition(".")[0] for c in node.find_all(exp.Column)}
    return bool(tables) and (not used or not used.isdisjoint(tables))


def join_relations(
    left: TypedRelation, right: TypedRelation, kind: ops.JoinKind, conditions: list[exp.Expr], names: NameGenerator
) -> TypedRelation:
    """Join on conditions: equalities between the sides become keys, the others a condition or filters below."""
    left, right, remaining = _push_conditions(left, right, kind, conditions)
    keys: dict[str, tuple[exp.Expr, exp.Expr]] = {}
    others: list[exp.Expr] = []
    safe = bool(remaining) and all(isinstance(c, exp.NullSafeEQ) for c in remaining if _split_equality(c, left, right))
    for conjunct in remaining:
        sides = _split_equality(conjunct, left, right)
        if sides is not None and isinstance(conjunct, exp.NullSafeEQ) == safe:
            keys[conjunct.sql()] = sides
        else:
            others.append(conjunct)
    on: list[tuple[str, str]] = []
    added: tuple[dict[str, exp.Expr], dict[str, exp.Expr]] = ({}, {})
    for a, b in keys.values():
        on.append((_add_key(a, added[0], names), _add_key(b, added[1], names)))
    left, right = left.add_columns(added[0]), right.add_columns(added[1])
    condition = to_operator_expression(exp.and_(*(c.copy() for c in others), copy=False)) if others else None
    op = ops.Join(left.op, right.op, kind, tuple(dict.fromkeys(on)), condition, safe)
    types = left.types if kind in (ops.JoinKind.SEMI, ops.JoinKind.ANTI) else {**left.types, **right.types}
    return TypedRelation(op, types)


def _push_conditions(
    left: TypedRelation, right: TypedRelation, kind: ops.JoinKind, conditions: list[exp.Expr]
) -> tuple[TypedRelation, TypedRelation, list[exp.Expr]]:
    """list[exp.Expr] on a single side filter that side, where the kind of join allows it."""
    filters_left = kind in (ops.JoinKind.INNER, ops.JoinKind.SEMI, ops.JoinKind.RIGHT)
    filters_right = kind in (ops.JoinKind.INNER, ops.JoinKind.SEMI, ops.JoinKind.ANTI, ops.JoinKind.LEFT)
    lefts = [c for c in conditions if filters_left and list_columns(c) and left.has_columns(c)]
    rights = [c for c in conditions if filters_right and list_columns(c) and right.has_columns(c) and c not in lefts]
    remaining = [c for c in conditions if not any(c is d for d in (*lefts, *rights))]
    return left.filter_rows(lefts), right.filter_rows(rights), remaining


def _split_equality(condition: exp.Expr, left: TypedRelation, right: TypedRelation) -> tuple[exp.Expr, exp.Expr] | None:
    if not isinstance(condition, exp.EQ | exp.NullSafeEQ):
        return None
    a, b = condition.this.unnest(), condition.expression.unnest()
    for one, other in ((a, b), (b, a)):
        if list_columns(one) and list_columns(other) and left.has_columns(one) and right.has_columns(other):
            return one, other
    return None


def _add_key(tree: exp.Expr, added: dict[str, exp.Expr], names: NameGenerator) -> str:
    if isinstance(tree, exp.Column):
        return tree.name
    name = names.generate_name("key")
    added[name] = tree
    return name


def join_all(
    relations: list[TypedRelation], conditions: list[exp.Expr], names: NameGenerator
) -> tuple[TypedRelation, list[exp.Expr]]:
    """Inner joins in an order in which each has a condition, if there is one; also returns the unused conditions."""
    pending = list(conditions)
    filtered = []
    for relation in relations:
        own = [c for c in pending if list_columns(c) and relation.has_columns(c)]
        pending = [c for c in pending if not any(c is o for o in own)]
        filtered.append(relation.filter_rows(own))
    joined, *unjoined = filtered
    while unjoined:
        relation = next((r for r in unjoined if any(_split_equality(c, joined, r) for c in pending)), unjoined[0])
        unjoined.remove(relation)
        usable = [c for c in pending if list_columns(c) and list_columns(c) <= {*joined.columns, *relation.columns}]
        pending = [c for c in pending if not any(c is u for u in usable)]
        joined = join_relations(joined, relation, ops.JoinKind.INNER, usable, names)
    return joined, pending
