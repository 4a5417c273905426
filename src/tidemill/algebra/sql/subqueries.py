"""Sub-queries: each becomes a join with the rows of the outer query.

A condition of the sub-query on its outer query becomes the join's condition. EXISTS and IN are semi joins, their
negations anti joins; a scalar sub-query is an aggregate, one row for each set of outer values that it depends on.
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
    filtered = rows.filter_rows([value])
    return TypedRelation(select_columns(filtered.op, names), filtered.types)


def replace_subqueries(
    translator: QueryTranslator, rows: TypedRelation, tree: exp.Expr, ctes: Ctes, *, filters: bool = False
) -> tuple[TypedRelation, exp.Expr]:
    """Rows with a column for each sub-query of an expression, and the expression over those columns.

    `filters`: the expression is a filter, so NULL is equivalent to FALSE.
    """
    tree = tree.copy()
    holder = exp.Paren(this=tree)
    for node in list(holder.find_all(exp.Subquery, exp.Exists, exp.In)):
        if isinstance(node, exp.In) and node.args.get("query") is None:
            continue
        if node.root() is not holder:
            continue  # replaced together with the sub-query around it
        if isinstance(node, exp.Exists | exp.In):
            rows, replacement = _join_mark(translator, rows, node, ctes, filters=filters)
        else:
            rows, replacement = _join_scalar(translator, rows, node.this, ctes)
        node.replace(replacement)
    return rows, holder.this


def _rename_apart(translator: QueryTranslator, relation: TypedRelation) -> tuple[TypedRelation, dict[str, str]]:
    """The relation under generated names, which no outer query can have."""
    names = {c: translator.names.generate_name("sub") for c in relation.columns}
    return relation.rename_columns(names), names


def _is_simple(query: exp.Expr) -> bool:
    """Whether its rows are those of FROM and WHERE."""
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
    """The sub-query of IN, and the conditions under which a row is in it."""
    values = list(value.expressions) if isinstance(value, exp.Tuple) else [value]
    if _is_simple(query):
        assert isinstance(query, exp.Select)
        inner, outer = translator.translate_rows(query, ctes)
        outputs = [e.unalias() for e in query.expressions]
    else:
        inner, outer = translator.translate_tree(query, ctes), []
        outputs = [build_column_tree(c) for c in inner.columns]
    inner, names = _rename_apart(translator, inner)
    pairs = zip(values, outputs, strict=True)
    equal = [exp.EQ(this=a.copy(), expression=replace_columns(b, names)) for a, b in pairs]
    return inner, [*equal, *(replace_columns(c, names) for c in outer)]


def _join_not_in(
    translator: QueryTranslator, rows: TypedRelation, value: exp.Expr, query: exp.Expr, ctes: Ctes
) -> TypedRelation:
    """NOT IN is true for no row if the sub-query has a NULL, and for no NULL value unless the sub-query is empty."""
    if isinstance(value, exp.Tuple):
        raise NotIncremental("NOT IN of several columns is only supported in batch")
    inner, conditions = _translate_in(translator, value, query, ctes)
    if len(conditions) > 1:
        raise NotIncremental("NOT IN with a sub-query on its outer query is only supported in batch")
    output = conditions[0].expression
    number, nulls = exp.Count(this=exp.Star()), exp.Count(this=exp.Case(ifs=[_build_null_test(output)]))
    calls = {to_sql(number): number, to_sql(nulls): nulls}
    counted, columns = group_rows(inner, {}, calls, translator.names)
    joined = TypedRelation(Join(rows.op, counted.op, JoinKind.INNER), {**rows.types, **counted.types})
    row_count, null_count = build_column_tree(columns[to_sql(number)]), build_column_tree(columns[to_sql(nulls)])
    allowed = exp.or_(
        exp.EQ(this=row_count, expression=exp.Literal.number(0)),
        exp.and_(
            exp.EQ(this=null_count, expression=exp.Literal.number(0)),
            exp.Not(this=exp.Is(this=value.copy(), expression=exp.Null())),
        ),
    )
    filtered = joined.filter_rows([allowed])
    filtered = TypedRelation(select_columns(filtered.op, rows.columns), rows.types)
    return join_relations(filtered, inner, JoinKind.ANTI, conditions, translator.names)


def _build_null_test(tree: exp.Expr) -> exp.If:
    return exp.If(this=exp.Is(this=tree.copy(), expression=exp.Null()), true=exp.Literal.number(1))


def _join_mark(
    translator: QueryTranslator, rows: TypedRelation, node: exp.Expr, ctes: Ctes, *, filters: bool
) -> tuple[TypedRelation, exp.Expr]:
    """EXISTS or IN within an expression: a column that marks whether there is a partner.

    IN may also be NULL, which the column does not distinguish from FALSE; the two are equivalent only in a filter.
    """
    if isinstance(node, exp.In) and not (
        filters and all(isinstance(p, exp.And | exp.Or | exp.Paren) for p in _list_ancestors(node))
    ):
        raise NotIncremental(f"{to_sql(node)} within an expression is only supported in batch: it may be NULL")
    if isinstance(node, exp.In):
        inner, conditions = _translate_in(translator, node.this, node.args["query"].unnest(), ctes)
    else:
        inner, outer = _translate_subquery(translator, node.this, ctes)
        inner, names = _rename_apart(translator, inner)
        conditions = [replace_columns(c, names) for c in outer]
    mark = translator.names.generate_name("mark")
    joined = join_relations(rows, inner, JoinKind.LEFT, conditions, translator.names)
    assert isinstance(joined.op, Join)
    if joined.op.condition is not None or not joined.op.keys:
        raise NotIncremental(f"{to_sql(node)} within an expression is only supported in batch")
    members = add_columns(
        Aggregation(joined.op.right, joined.op.right_keys), NamedExpression(mark, to_expression("TRUE"))
    )
    marked = Join(joined.op.left, members, JoinKind.LEFT, joined.op.keys, null_safe=joined.op.null_safe)
    op = select_columns(marked, (*rows.columns, mark))
    value = exp.Not(this=exp.Is(this=build_column_tree(mark), expression=exp.Null()))
    return TypedRelation(op, rows.types), value


def _list_ancestors(node: exp.Expr) -> list[exp.Expr]:
    ancestors = []
    while node.parent is not None:
        node = node.parent
        ancestors.append(node)
    return ancestors


def _join_scalar(
    translator: QueryTranslator, rows: TypedRelation, query: exp.Expr, ctes: Ctes
) -> tuple[TypedRelation, exp.Expr]:
    """A scalar sub-query: an aggregate without GROUP BY."""
    if not isinstance(query, exp.Select) or query.args.get("group") or not find_aggregate_calls(query.expressions):
        raise NotIncremental(
            f"the sub-query {to_sql(query)} is used as a value but is not an aggregate without GROUP BY"
        )
    if any(query.args.get(c) for c in ("having", "limit", "offset", "distinct")) or query.find(exp.Window):
        raise NotIncremental(f"the sub-query {to_sql(query)} is only supported in batch")
    inner, outer = translator.translate_rows(query, translator._translate_ctes(query, ctes))
    inner, names = _rename_apart(translator, inner)
    value = replace_columns(query.expressions[0].unalias(), names)
    calls = find_aggregate_calls([value])
    keys, outer_values = _split_correlation(inner, [replace_columns(c, names) for c in outer])
    if not keys:
        counted, columns = group_rows(inner, {}, calls, translator.names)
        joined = Join(rows.op, counted.op, JoinKind.INNER)
        return TypedRelation(joined, {**rows.types, **counted.types}), _substitute_columns(value, columns)
    key_names = {translator.names.generate_name("on"): k for k in keys}
    counted, columns = group_rows(inner, key_names, calls, translator.names)
    conditions: list[exp.Expr] = [
        exp.EQ(this=s.copy(), expression=build_column_tree(n)) for s, n in zip(outer_values, key_names, strict=True)
    ]  # fmt: skip
    combined = join_relations(rows, counted, JoinKind.LEFT, conditions, translator.names)
    items = [NamedExpression(c, build_column(c)) for c in rows.columns]
    items += [NamedExpression(columns[t], default_if_empty(call, columns[t])) for t, call in calls.items()]
    op = add_columns(combined.op, *items)
    return TypedRelation(
        select_columns(op, [i.name for i in items]), {**rows.types, **counted.types}
    ), _substitute_columns(value, columns)


def _split_correlation(inner: TypedRelation, conditions: list[exp.Expr]) -> tuple[list[exp.Expr], list[exp.Expr]]:
    """The sub-query's side and the outer side of each equality between them."""
    keys, outer_values = [], []
    for condition in conditions:
        a, b = (condition.this, condition.expression) if isinstance(condition, exp.EQ) else (None, None)
        if a is None or b is None:
            raise NotIncremental("the sub-query depends on its outer query by more than equalities of columns")
        inner_value, outer_value = (a, b) if inner.has_columns(a) and list_columns(a) else (b, a)
        if not inner.has_columns(inner_value) or list_columns(outer_value) & set(inner.columns):
            raise NotIncremental("the sub-query depends on its outer query by more than equalities of columns")
        keys.append(inner_value)
        outer_values.append(outer_value)
    return keys, outer_values


def _substitute_columns(value: exp.Expr, columns: Mapping[str, str]) -> exp.Expr:
    def swap_node(node: exp.Expr) -> exp.Expr:
        name = columns.get(to_sql(node))
        return node if name is None else build_column_tree(name)

    return exp.Paren(this=value.copy().transform(swap_node))
