"""Sub-queries: each becomes a join with the rows around it.

A condition of the sub-query on its outer query becomes the join's condition. EXISTS and IN are semi joins, their
negations anti joins; a sub-query that stands for a value is an aggregate, one row for each set of outer values
that it depends on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from sqlglot import exp

from tidemill.algebra.dialect import text_of
from tidemill.algebra.expression import column, expression
from tidemill.algebra.operators import Group, Join, JoinKind, Named, extend, select
from tidemill.algebra.sql.grouping import aggregate_calls, group, of_nothing
from tidemill.algebra.sql.reading import NotIncremental
from tidemill.algebra.sql.relation import Relation, column_tree, columns_of, join, replaced

if TYPE_CHECKING:
    from tidemill.algebra.sql.translate import Translator

Ctes = Mapping[str, Relation]


def where(translator: Translator, rows: Relation, condition: exp.Expr, ctes: Ctes) -> Relation:
    """Rows that satisfy a condition, which may have sub-queries."""
    condition = condition.unnest()
    negated = isinstance(condition, exp.Not)
    inner = condition.this.unnest() if negated else condition
    if isinstance(inner, exp.Exists):
        return _exists(translator, rows, inner.this, ctes, negated)
    if isinstance(inner, exp.In) and inner.args.get("query") is not None:
        query = inner.args["query"].unnest()
        if negated:
            return _not_in(translator, rows, inner.this, query, ctes)
        return _in(translator, rows, inner.this, query, ctes)
    rows, value = values(translator, rows, condition, ctes, filters=True)
    names = rows.columns
    kept = rows.filtered([value])
    return Relation(select(kept.op, names), kept.types)


def values(
    translator: Translator, rows: Relation, tree: exp.Expr, ctes: Ctes, *, filters: bool = False
) -> tuple[Relation, exp.Expr]:
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
            rows, made = _mark(translator, rows, found, ctes, filters=filters)
        else:
            rows, made = _scalar(translator, rows, found.this, ctes)
        found.replace(made)
    return rows, holder.this


def _apart(translator: Translator, relation: Relation) -> tuple[Relation, dict[str, str]]:
    """The relation under names of its own, which no outer query can have."""
    names = {c: translator.names.fresh("sub") for c in relation.columns}
    return relation.renamed(names), names


def _simple(query: exp.Expr) -> bool:
    """Are its rows those of FROM and WHERE?"""
    clauses = ("group", "having", "limit", "offset", "distinct", "with_")
    return (
        isinstance(query, exp.Select)
        and not any(query.args.get(c) for c in clauses)
        and not aggregate_calls(query.expressions)
        and not query.find(exp.Window)
    )


def _exists(translator: Translator, rows: Relation, query: exp.Expr, ctes: Ctes, negated: bool) -> Relation:
    kind = JoinKind.ANTI if negated else JoinKind.SEMI
    inner, outer = _inner(translator, query, ctes)
    inner, names = _apart(translator, inner)
    return join(rows, inner, kind, [replaced(c, names) for c in outer], translator.names)


def _inner(translator: Translator, query: exp.Expr, ctes: Ctes) -> tuple[Relation, list[exp.Expr]]:
    query = query.unnest()
    if _simple(query):
        assert isinstance(query, exp.Select)
        return translator.rows(query, ctes)
    return translator.query(query, ctes), []


def _in(translator: Translator, rows: Relation, value: exp.Expr, query: exp.Expr, ctes: Ctes) -> Relation:
    inner, conditions = _member(translator, value, query, ctes)
    return join(rows, inner, JoinKind.SEMI, conditions, translator.names)


def _member(translator: Translator, value: exp.Expr, query: exp.Expr, ctes: Ctes) -> tuple[Relation, list[exp.Expr]]:
    """The sub-query of IN, and the conditions on which a row is in it."""
    sought = list(value.expressions) if isinstance(value, exp.Tuple) else [value]
    if _simple(query):
        assert isinstance(query, exp.Select)
        inner, outer = translator.rows(query, ctes)
        found = [e.unalias() for e in query.expressions]
    else:
        inner, outer = translator.query(query, ctes), []
        found = [column_tree(c) for c in inner.columns]
    inner, names = _apart(translator, inner)
    pairs = zip(sought, found, strict=True)
    equal = [exp.EQ(this=a.copy(), expression=replaced(b, names)) for a, b in pairs]
    return inner, [*equal, *(replaced(c, names) for c in outer)]


def _not_in(translator: Translator, rows: Relation, value: exp.Expr, query: exp.Expr, ctes: Ctes) -> Relation:
    """NOT IN holds of no row if the sub-query has a NULL, and of no NULL unless the sub-query is empty."""
    if isinstance(value, exp.Tuple):
        raise NotIncremental("NOT IN of several columns is only known in batch")
    inner, conditions = _member(translator, value, query, ctes)
    if len(conditions) > 1:
        raise NotIncremental("NOT IN with a sub-query on its outer query is only known in batch")
    found = conditions[0].expression
    number, nulls = exp.Count(this=exp.Star()), exp.Count(this=exp.Case(ifs=[_if_null(found)]))
    calls = {text_of(number): number, text_of(nulls): nulls}
    counted, made = group(inner, {}, calls, translator.names)
    beside = Relation(Join(rows.op, counted.op, JoinKind.INNER), {**rows.types, **counted.types})
    some, missing = column_tree(made[text_of(number)]), column_tree(made[text_of(nulls)])
    allowed = exp.or_(
        exp.EQ(this=some, expression=exp.Literal.number(0)),
        exp.and_(
            exp.EQ(this=missing, expression=exp.Literal.number(0)),
            exp.Not(this=exp.Is(this=value.copy(), expression=exp.Null())),
        ),
    )
    kept = beside.filtered([allowed])
    kept = Relation(select(kept.op, rows.columns), rows.types)
    return join(kept, inner, JoinKind.ANTI, conditions, translator.names)


def _if_null(tree: exp.Expr) -> exp.If:
    return exp.If(this=exp.Is(this=tree.copy(), expression=exp.Null()), true=exp.Literal.number(1))


def _mark(
    translator: Translator, rows: Relation, found: exp.Expr, ctes: Ctes, *, filters: bool
) -> tuple[Relation, exp.Expr]:
    """EXISTS or IN within an expression: a column that says whether there is a partner.

    IN may also be NULL, which the column does not tell from FALSE; only where a filter uses it they are the same.
    """
    if isinstance(found, exp.In) and not (
        filters and all(isinstance(p, exp.And | exp.Or | exp.Paren) for p in _above(found))
    ):
        raise NotIncremental(f"{text_of(found)} within an expression is only known in batch: it may be NULL")
    if isinstance(found, exp.In):
        inner, conditions = _member(translator, found.this, found.args["query"].unnest(), ctes)
    else:
        inner, outer = _inner(translator, found.this, ctes)
        inner, names = _apart(translator, inner)
        conditions = [replaced(c, names) for c in outer]
    mark = translator.names.fresh("mark")
    joined = join(rows, inner, JoinKind.LEFT, conditions, translator.names)
    assert isinstance(joined.op, Join)
    if joined.op.condition is not None or not joined.op.keys:
        raise NotIncremental(f"{text_of(found)} within an expression is only known in batch")
    once = extend(Group(joined.op.right, joined.op.right_keys), Named(mark, expression("TRUE")))
    marked = Join(joined.op.left, once, JoinKind.LEFT, joined.op.keys, safe=joined.op.safe)
    op = select(marked, (*rows.columns, mark))
    value = exp.Not(this=exp.Is(this=column_tree(mark), expression=exp.Null()))
    return Relation(op, rows.types), value


def _above(node: exp.Expr) -> list[exp.Expr]:
    found = []
    while node.parent is not None:
        node = node.parent
        found.append(node)
    return found


def _scalar(translator: Translator, rows: Relation, query: exp.Expr, ctes: Ctes) -> tuple[Relation, exp.Expr]:
    """A sub-query that stands for a value: an aggregate without GROUP BY."""
    if not isinstance(query, exp.Select) or query.args.get("group") or not aggregate_calls(query.expressions):
        raise NotIncremental(f"the sub-query {text_of(query)} stands for a value but is no aggregate of everything")
    if any(query.args.get(c) for c in ("having", "limit", "offset", "distinct")) or query.find(exp.Window):
        raise NotIncremental(f"the sub-query {text_of(query)} is only known in batch")
    inner, outer = translator.rows(query, translator._with(query, ctes))
    inner, names = _apart(translator, inner)
    value = replaced(query.expressions[0].unalias(), names)
    calls = aggregate_calls([value])
    keys, sought = _correlation(inner, [replaced(c, names) for c in outer])
    if not keys:
        counted, made = group(inner, {}, calls, translator.names)
        joined = Join(rows.op, counted.op, JoinKind.INNER)
        return Relation(joined, {**rows.types, **counted.types}), _over(value, made)
    named = {translator.names.fresh("on"): k for k in keys}
    counted, made = group(inner, named, calls, translator.names)
    conditions: list[exp.Expr] = [
        exp.EQ(this=s.copy(), expression=column_tree(n)) for s, n in zip(sought, named, strict=True)
    ]  # fmt: skip
    beside = join(rows, counted, JoinKind.LEFT, conditions, translator.names)
    items = [Named(c, column(c)) for c in rows.columns]
    items += [Named(made[t], of_nothing(call, made[t])) for t, call in calls.items()]
    op = extend(beside.op, *items)
    return Relation(select(op, [i.name for i in items]), {**rows.types, **counted.types}), _over(value, made)


def _correlation(inner: Relation, conditions: list[exp.Expr]) -> tuple[list[exp.Expr], list[exp.Expr]]:
    """The sub-query's side and the outer side of each equality between them."""
    keys, sought = [], []
    for condition in conditions:
        a, b = (condition.this, condition.expression) if isinstance(condition, exp.EQ) else (None, None)
        if a is None or b is None:
            raise NotIncremental("the sub-query depends on its outer query by more than equalities of columns")
        own, other = (a, b) if inner.has(a) and columns_of(a) else (b, a)
        if not inner.has(own) or columns_of(other) & set(inner.columns):
            raise NotIncremental("the sub-query depends on its outer query by more than equalities of columns")
        keys.append(own)
        sought.append(other)
    return keys, sought


def _over(value: exp.Expr, made: Mapping[str, str]) -> exp.Expr:
    def swap(node: exp.Expr) -> exp.Expr:
        name = made.get(text_of(node))
        return node if name is None else column_tree(name)

    return exp.Paren(this=value.copy().transform(swap))
