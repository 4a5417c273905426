"""Sub-queries: each becomes a join with the rows of the outer query.

A condition of the sub-query on its outer query becomes the join's condition. EXISTS and IN are semi joins, their
negations anti joins; a scalar sub-query is an aggregate, one row for each set of outer values that it depends on.
"""

from contextlib import AbstractContextManager
from typing import Protocol

from sqlglot import exp

from tidemill.algebra import operators as ops
from tidemill.algebra.dialect import to_sql
from tidemill.algebra.sql.grouping import default_if_empty, find_aggregate_calls, group_rows
from tidemill.algebra.sql.reading import NotIncremental
from tidemill.algebra.sql.relation import (
    NameGenerator,
    TypedRelation,
    build_column_tree,
    join_relations,
    list_columns,
    replace_columns,
    substitute_columns,
)

RowsAndValue = tuple[TypedRelation, exp.Expr]


class SelectTranslator(Protocol):
    """The translation of a query, which the translation of its sub-queries depends on."""

    names: NameGenerator

    def translate_tree(self, tree: exp.Expr) -> TypedRelation: ...

    def translate_rows(self, tree: exp.Select) -> tuple[TypedRelation, list[exp.Expr]]: ...

    def define_ctes(self, tree: exp.Expr) -> AbstractContextManager[None]: ...


class SubqueryJoins:
    """Joins the rows of a query with its sub-queries."""

    def __init__(self, translator: SelectTranslator) -> None:
        self._translator = translator
        self._names = translator.names

    def filter_rows(self, rows: TypedRelation, condition: exp.Expr) -> TypedRelation:
        """Rows that satisfy a condition, which may have sub-queries."""
        condition = condition.unnest()
        negated = isinstance(condition, exp.Not)
        inner = condition.this.unnest() if negated else condition
        if isinstance(inner, exp.In) and inner.args.get("query") is not None and negated:
            return self._exclude_members(rows, inner)
        if isinstance(inner, exp.Exists) or (isinstance(inner, exp.In) and inner.args.get("query") is not None):
            partners, conditions = self._translate_partners(inner)
            kind = ops.JoinKind.ANTI if negated else ops.JoinKind.SEMI
            return join_relations(rows, partners, kind, conditions, self._names)
        rows, value = self.add_values(rows, condition, filters=True)
        filtered = rows.filter_rows([value])
        return TypedRelation(ops.select_columns(filtered.op, rows.columns), filtered.types)

    def add_values(self, rows: TypedRelation, tree: exp.Expr, *, filters: bool = False) -> RowsAndValue:
        """Rows with a column for each sub-query, and the expression over them; `filters`: NULL is as good as FALSE."""
        holder = exp.Paren(this=tree.copy())
        for node in list(holder.find_all(exp.Subquery, exp.Exists, exp.In)):
            if isinstance(node, exp.In) and node.args.get("query") is None:
                continue
            if node.root() is not holder:
                continue  # replaced together with the sub-query around it
            if isinstance(node, exp.Exists | exp.In):
                rows, replacement = self._add_mark(rows, node, filters=filters)
            else:
                rows, replacement = self._add_scalar(rows, node.this)
            node.replace(replacement)
        return rows, holder.this

    def _translate_partners(self, node: exp.Exists | exp.In) -> tuple[TypedRelation, list[exp.Expr]]:
        """The sub-query of EXISTS or IN, and the conditions under which a row has a partner in it."""
        query = (node.this if isinstance(node, exp.Exists) else node.args["query"]).unnest()
        if _is_simple(query):
            inner, outer = self._translator.translate_rows(query)
            outputs = [e.unalias() for e in query.expressions]
        else:
            inner, outer = self._translator.translate_tree(query), []
            outputs = [build_column_tree(c) for c in inner.columns]
        inner, names = self._rename_apart(inner)
        members = node.this.expressions if isinstance(node.this, exp.Tuple) else [node.this]
        pairs = zip(members, outputs, strict=True) if isinstance(node, exp.In) else ()
        equal = [exp.EQ(this=a.copy(), expression=replace_columns(b, names)) for a, b in pairs]
        return inner, [*equal, *(replace_columns(c, names) for c in outer)]

    def _rename_apart(self, relation: TypedRelation) -> tuple[TypedRelation, dict[str, str]]:
        """The relation under generated names, which no outer query can have."""
        names = {c: self._names.generate_name("sub") for c in relation.columns}
        return relation.rename_columns(names), names

    def _exclude_members(self, rows: TypedRelation, node: exp.In) -> TypedRelation:
        """NOT IN: no row if the sub-query has a NULL, and no row whose value is NULL unless the sub-query is empty."""
        if isinstance(node.this, exp.Tuple):
            raise NotIncremental("NOT IN of several columns is only supported in batch")
        inner, conditions = self._translate_partners(node)
        if len(conditions) > 1:
            raise NotIncremental("NOT IN with a sub-query on its outer query is only supported in batch")
        is_null = exp.Is(this=conditions[0].expression.copy(), expression=exp.Null())
        number = exp.Count(this=exp.Star())
        nulls = exp.Count(this=exp.Case(ifs=[exp.If(this=is_null, true=exp.Literal.number(1))]))
        calls = {to_sql(number): number, to_sql(nulls): nulls}
        counted, columns = group_rows(inner, {}, calls, self._names)
        joined = TypedRelation(ops.Join(rows.op, counted.op, ops.JoinKind.INNER), {**rows.types, **counted.types})
        zero, counts = exp.Literal.number(0), (build_column_tree(columns[text]) for text in calls)
        has_none, has_no_null = (exp.EQ(this=count, expression=zero.copy()) for count in counts)
        is_known = exp.Not(this=exp.Is(this=node.this.copy(), expression=exp.Null()))
        filtered = joined.filter_rows([exp.or_(has_none, exp.and_(has_no_null, is_known))])
        filtered = TypedRelation(ops.select_columns(filtered.op, rows.columns), rows.types)
        return join_relations(filtered, inner, ops.JoinKind.ANTI, conditions, self._names)

    def _add_mark(self, rows: TypedRelation, node: exp.Exists | exp.In, *, filters: bool) -> RowsAndValue:
        """EXISTS or IN within an expression: a column that marks whether there is a partner.

        IN may also be NULL, which the column does not distinguish from FALSE; the two are equivalent only in a filter.
        """
        if isinstance(node, exp.In) and not (filters and _is_conjunct(node)):
            raise NotIncremental(f"{to_sql(node)} within an expression is only supported in batch: it may be NULL")
        inner, conditions = self._translate_partners(node)
        mark = self._names.generate_name("mark")
        joined = join_relations(rows, inner, ops.JoinKind.LEFT, conditions, self._names).op
        assert isinstance(joined, ops.Join)
        if joined.condition is not None or not joined.keys:
            raise NotIncremental(f"{to_sql(node)} within an expression is only supported in batch")
        members = ops.add_columns(ops.Aggregation(joined.right, joined.right_keys), {mark: "TRUE"})
        marked = ops.Join(joined.left, members, ops.JoinKind.LEFT, joined.keys, null_safe=joined.null_safe)
        value = exp.Not(this=exp.Is(this=build_column_tree(mark), expression=exp.Null()))
        return TypedRelation(ops.select_columns(marked, (*rows.columns, mark)), rows.types), value

    def _add_scalar(self, rows: TypedRelation, query: exp.Expr) -> RowsAndValue:
        """A scalar sub-query: an aggregate without GROUP BY."""
        if not isinstance(query, exp.Select) or query.args.get("group") or not find_aggregate_calls(query.expressions):
            reason = "is used as a value but is not an aggregate without GROUP BY"
            raise NotIncremental(f"the sub-query {to_sql(query)} {reason}")
        if any(query.args.get(c) for c in ("having", "limit", "offset", "distinct")) or query.find(exp.Window):
            raise NotIncremental(f"the sub-query {to_sql(query)} is only supported in batch")
        with self._translator.define_ctes(query):
            inner, outer = self._translator.translate_rows(query)
        inner, names = self._rename_apart(inner)
        value = replace_columns(query.expressions[0].unalias(), names)
        calls = find_aggregate_calls([value])
        keys, outer_values = _split_correlation(inner, [replace_columns(c, names) for c in outer])
        key_names = {self._names.generate_name("on"): k for k in keys}
        counted, columns = group_rows(inner, key_names, calls, self._names)
        types = {**rows.types, **counted.types}
        result = exp.Paren(this=substitute_columns(value, columns))
        if not keys:
            return TypedRelation(ops.Join(rows.op, counted.op, ops.JoinKind.INNER), types), result
        pairs = zip(outer_values, key_names, strict=True)
        conditions: list[exp.Expr] = [exp.EQ(this=v.copy(), expression=build_column_tree(n)) for v, n in pairs]
        joined = join_relations(rows, counted, ops.JoinKind.LEFT, conditions, self._names).op
        values = {columns[t]: default_if_empty(call, columns[t]) for t, call in calls.items()}
        op = ops.add_columns(joined, values)
        return TypedRelation(ops.select_columns(op, (*rows.columns, *values)), types), result


def _is_simple(query: exp.Expr) -> bool:
    """Whether its rows are those of FROM and WHERE."""
    clauses = ("group", "having", "limit", "offset", "distinct", "with_")
    return (
        isinstance(query, exp.Select)
        and not any(query.args.get(c) for c in clauses)
        and not find_aggregate_calls(query.expressions)
        and not query.find(exp.Window)
    )


def _is_conjunct(node: exp.Expr) -> bool:
    """Whether there are only AND, OR and parentheses above it."""
    while node.parent is not None:
        node = node.parent
        if not isinstance(node, exp.And | exp.Or | exp.Paren):
            return False
    return True


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
