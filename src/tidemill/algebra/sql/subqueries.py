"""Sub-queries: each becomes a join with the rows around it.

A condition of the sub-query on its outer query becomes the join's condition. EXISTS and IN are semi joins, their
negations anti joins; a sub-query that stands for a value is an aggregate, one row for each set of outer values
that it depends on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from sqlglot import exp

from tidemill.algebra.dialect import to_sql
from tidemill.algebra.expression import build_column, to_expression
from tidemill.algebra.operators import Aggregation, Join, JoinKind, NamedExpression, add_columns, select_columns
from tidemill.algebra.sql.grouping import default_if_empty, find_aggregate_calls, group_rows
from tidemill.algebra.sql.reading import NotIncremental
from tidemill.algebra.sql.relation import (
    TypedRelation,
    build_column_tree,
    join_relations,
    list_columns,
    replace_columns,
)

if TYPE_CHECKING:
    from tidemill.algebra.sql.translate import QueryTranslator

Ctes = Mapping[str, TypedRelation]


def filter_where(translator: QueryTranslator, rows: TypedRelation, condition: exp.Expr, ctes: Ctes) -> TypedRelation:
    """Rows that satisfy a condition, which may have sub-queries."""
    condition = condition.unnest()
    negated = isinstance(condition, exp.Not)
    inner = condition.this.unnest() if negated else condition
    if isinstance(inner, exp.Exists):
        return _join_exists(translator, rows, inner.this, ctes, negated)
    if isinstance(inner, exp.In) and inner.args.get("query") is not None:
        query = inner.args["query"].unnest()
        if negated:
            return _join_not_in(translator, rows, inner.this, query, ctes)
        return _join_in(translator, rows, inner.this, query, ctes)
    rows, value = replace_subqueries(translator, rows, condition, ctes, filters=True)
    names = rows.columns
    kept = rows.filter_rows([value])
    return TypedRelation(select_columns(kept.op, names), kept.types)


def replace_subqueries(
    translator: QueryTranslator, rows: TypedRelation, tree: exp.Expr, ctes: Ctes, *, filters: bool = False
) -> tuple[TypedRelation, exp.Expr]:
    """Rows with a column for each sub-query of an expression, and the expression over those columns.

    `filters`: the expression decides which rows stay, so that NULL is as good as FALSE.
    """
    tree = tree.copy()
    holder = exp.Paren(this=tree)
    for found in list(holder.find_all(exp.Subquery, exp.Exists, exp.In)):
        if isinstance(found, exp.In) and found.args.get("query") is None:
            continue
        if found.root() is not holder:
            continue  # went with the sub-query around it
        if isinstance(found, exp.Exists | exp.In):
            rows, made = _join_mark(translator, rows, found, ctes, filters=filters)
        else:
            rows, made = _join_scalar(translator, rows, found.this, ctes)
        found.replace(made)
    return rows, holder.this


def _rename_apart(translator: QueryTranslator, relation: TypedRelation) -> tuple[TypedRelation, dict[str, str]]:
    """The relation under names of its own, which no outer query can have."""
    names = {c: translator.names.generate_name("sub") for c in relation.columns}
    return relation.rename_columns(names), names


def _is_simple(query: exp.Expr) -> bool:
    """Are its rows those of FROM and WHERE?"""
    clauses = ("group", "having", "limit", "offset", "distinct", "with_")
    return (
        isinstance(query, exp.Select)
        and not any(query.args.get(c) for c in clauses)
        and not find_aggregate_calls(query.expressions)
        and not query.find(exp.Window)
    )


def _join_exists(
    translator: QueryTranslator, rows: TypedRelation, query: exp.Expr, ctes: Ctes, negated: bool
) -> TypedRelation:
    kind = JoinKind.ANTI if negated else JoinKind.SEMI
    inner, outer = _translate_subquery(translator, query, ctes)
    inner, names = _rename_apart(translator, inner)
    return join_relations(rows, inner, kind, [replace_columns(c, names) for c in outer], translator.names)


def _translate_subquery(
    translator: QueryTranslator, query: exp.Expr, ctes: Ctes
) -> tuple[TypedRelation, list[exp.Expr]]:
    query = query.unnest()
    if _is_simple(query):
        assert isinstance(query, exp.Select)
        return translator.translate_rows(query, ctes)
    return translator.translate_tree(query, ctes), []


def _join_in(
    translator: QueryTranslator, rows: TypedRelation, value: exp.Expr, query: exp.Expr, ctes: Ctes
) -> TypedRelation:
    inner, conditions = _translate_in(translator, value, query, ctes)
    return join_relations(rows, inner, JoinKind.SEMI, conditions, translator.names)


def _translate_in(
    translator: QueryTranslator, value: exp.Expr, query: exp.Expr, ctes: Ctes
) -> tuple[TypedRelation, list[exp.Expr]]:
    """The sub-query of IN, and the conditions on which a row is in it."""
    sought = list(value.expressions) if isinstance(value, exp.Tuple) else [value]
    if _is_simple(query):
        assert isinstance(query, exp.Select)
        inner, outer = translator.translate_rows(query, ctes)
        found = [e.unalias() for e in query.expressions]
    else:
        inner, outer = translator.translate_tree(query, ctes), []
        found = [build_column_tree(c) for c in inner.columns]
    inner, names = _rename_apart(translator, inner)
    pairs = zip(sought, found, strict=True)
    equal = [exp.EQ(this=a.copy(), expression=replace_columns(b, names)) for a, b in pairs]
    return inner, [*equal, *(replace_columns(c, names) for c in outer)]


def _join_not_in(
    translator: QueryTranslator, rows: TypedRelation, value: exp.Expr, query: exp.Expr, ctes: Ctes
) -> TypedRelation:
    """NOT IN holds of no row if the sub-query has a NULL, and of no NULL unless the sub-query is empty."""
    if isinstance(value, exp.Tuple):
        raise NotIncremental("NOT IN of several columns is only known in batch")
    inner, conditions = _translate_in(translator, value, query, ctes)
    if len(conditions) > 1:
        raise NotIncremental("NOT IN with a sub-query on its outer query is only known in batch")
    found = conditions[0].expression
    number, nulls = exp.Count(this=exp.Star()), exp.Count(this=exp.Case(ifs=[_build_null_test(found)]))
    calls = {to_sql(number): number, to_sql(nulls): nulls}
    counted, made = group_rows(inner, {}, calls, translator.names)
    beside = TypedRelation(Join(rows.op, counted.op, JoinKind.INNER), {**rows.types, **counted.types})
    some, missing = build_column_tree(made[to_sql(number)]), build_column_tree(made[to_sql(nulls)])
    allowed = exp.or_(
        exp.EQ(this=some, expression=exp.Literal.number(0)),
        exp.and_(
            exp.EQ(this=missing, expression=exp.Literal.number(0)),
            exp.Not(this=exp.Is(this=value.copy(), expression=exp.Null())),
        ),
    )
    kept = beside.filter_rows([allowed])
    kept = TypedRelation(select_columns(kept.op, rows.columns), rows.types)
    return join_relations(kept, inner, JoinKind.ANTI, conditions, translator.names)


def _build_null_test(tree: exp.Expr) -> exp.If:
    return exp.If(this=exp.Is(this=tree.copy(), expression=exp.Null()), true=exp.Literal.number(1))


def _join_mark(
    translator: QueryTranslator, rows: TypedRelation, found: exp.Expr, ctes: Ctes, *, filters: bool
) -> tuple[TypedRelation, exp.Expr]:
    """EXISTS or IN within an expression: a column that says whether there is a partner.

    IN may also be NULL, which the column does not tell from FALSE; only where a filter uses it they are the same.
    """
    if isinstance(found, exp.In) and not (
        filters and all(isinstance(p, exp.And | exp.Or | exp.Paren) for p in _list_ancestors(found))
    ):
        raise NotIncremental(f"{to_sql(found)} within an expression is only known in batch: it may be NULL")
    if isinstance(found, exp.In):
        inner, conditions = _translate_in(translator, found.this, found.args["query"].unnest(), ctes)
    else:
        inner, outer = _translate_subquery(translator, found.this, ctes)
        inner, names = _rename_apart(translator, inner)
        conditions = [replace_columns(c, names) for c in outer]
    mark = translator.names.generate_name("mark")
    joined = join_relations(rows, inner, JoinKind.LEFT, conditions, translator.names)
    assert isinstance(joined.op, Join)
    if joined.op.condition is not None or not joined.op.keys:
        raise NotIncremental(f"{to_sql(found)} within an expression is only known in batch")
    once = add_columns(Aggregation(joined.op.right, joined.op.right_keys), NamedExpression(mark, to_expression("TRUE")))
    marked = Join(joined.op.left, once, JoinKind.LEFT, joined.op.keys, safe=joined.op.safe)
    op = select_columns(marked, (*rows.columns, mark))
    value = exp.Not(this=exp.Is(this=build_column_tree(mark), expression=exp.Null()))
    return TypedRelation(op, rows.types), value


def _list_ancestors(node: exp.Expr) -> list[exp.Expr]:
    found = []
    while node.parent is not None:
        node = node.parent
        found.append(node)
    return found


def _join_scalar(
    translator: QueryTranslator, rows: TypedRelation, query: exp.Expr, ctes: Ctes
) -> tuple[TypedRelation, exp.Expr]:
    """A sub-query that stands for a value: an aggregate without GROUP BY."""
    if not isinstance(query, exp.Select) or query.args.get("group") or not find_aggregate_calls(query.expressions):
        raise NotIncremental(f"the sub-query {to_sql(query)} stands for a value but is no aggregate of everything")
    if any(query.args.get(c) for c in ("having", "limit", "offset", "distinct")) or query.find(exp.Window):
        raise NotIncremental(f"the sub-query {to_sql(query)} is only known in batch")
    inner, outer = translator.translate_rows(query, translator._translate_ctes(query, ctes))
    inner, names = _rename_apart(translator, inner)
    value = replace_columns(query.expressions[0].unalias(), names)
    calls = find_aggregate_calls([value])
    keys, sought = _split_correlation(inner, [replace_columns(c, names) for c in outer])
    if not keys:
        counted, made = group_rows(inner, {}, calls, translator.names)
        joined = Join(rows.op, counted.op, JoinKind.INNER)
        return TypedRelation(joined, {**rows.types, **counted.types}), _substitute_columns(value, made)
    named = {translator.names.generate_name("on"): k for k in keys}
    counted, made = group_rows(inner, named, calls, translator.names)
    conditions: list[exp.Expr] = [
        exp.EQ(this=s.copy(), expression=build_column_tree(n)) for s, n in zip(sought, named, strict=True)
    ]  # fmt: skip
    beside = join_relations(rows, counted, JoinKind.LEFT, conditions, translator.names)
    items = [NamedExpression(c, build_column(c)) for c in rows.columns]
    items += [NamedExpression(made[t], default_if_empty(call, made[t])) for t, call in calls.items()]
    op = add_columns(beside.op, *items)
    return TypedRelation(
        select_columns(op, [i.name for i in items]), {**rows.types, **counted.types}
    ), _substitute_columns(value, made)


def _split_correlation(inner: TypedRelation, conditions: list[exp.Expr]) -> tuple[list[exp.Expr], list[exp.Expr]]:
    """The sub-query's side and the outer side of each equality between them."""
    keys, sought = [], []
    for condition in conditions:
        a, b = (condition.this, condition.expression) if isinstance(condition, exp.EQ) else (None, None)
        if a is None or b is None:
            raise NotIncremental("the sub-query depends on its outer query by more than equalities of columns")
        own, other = (a, b) if inner.has_columns(a) and list_columns(a) else (b, a)
        if not inner.has_columns(own) or list_columns(other) & set(inner.columns):
            raise NotIncremental("the sub-query depends on its outer query by more than equalities of columns")
        keys.append(own)
        sought.append(other)
    return keys, sought


def _substitute_columns(value: exp.Expr, made: Mapping[str, str]) -> exp.Expr:
    def swap_node(node: exp.Expr) -> exp.Expr:
        name = made.get(to_sql(node))
        return node if name is None else build_column_tree(name)

    return exp.Paren(this=value.copy().transform(swap_node))
