"""Sub-queries inside expressions: EXISTS, IN, and scalar aggregates, correlated or not."""

from __future__ import annotations

from collections.abc import Callable

from tests.oracle.queries.aggregates import COLLECTS
from tests.oracle.queries.columns import Columns, Type
from tests.oracle.queries.expressions import condition, expression
from tests.oracle.queries.sources import Inner, Source, match_keys, relation
from tests.oracle.queries.writer import QueryWriter, exact

Rule = Callable[[QueryWriter, Columns, Inner, int], str]


def restriction(writer: QueryWriter, scope: Columns, inner: Inner, depth: int) -> str:
    """A WHERE condition, sometimes with a sub-query.

    An IN among other conditions is never under a NOT: there Spark's own result for NULLs is doubtful.
    """
    plain = condition(writer, scope)
    if not writer.chance(35):
        return plain
    rule = writer.one(RULES)
    tested = rule(writer, scope, inner, depth)
    if writer.chance(20):
        tested = f"NOT ({tested})"
    if writer.chance(60):
        return tested
    both = f"({plain}) {writer.one(('AND', 'OR'))} {tested}"
    return f"NOT ({both})" if rule is not membership and writer.chance(25) else both


def having(writer: QueryWriter, scope: Columns, keys: Columns, inner: Inner, depth: int) -> str:
    """A condition on groups by a sub-query, which may refer to the groups' keys and aggregates.

    Not to a key that is a field of a struct: Spark refuses that (MISSING_ATTRIBUTES).
    """
    keys = tuple(k for k in keys if k.text.count(".") < 2)
    other = relation(writer, inner, depth - 1)
    outer_value = expression(writer, scope, Type.INT, depth=0)
    match writer.one(("exists", "in", "scalar")):
        case "exists" if matching := match_keys(writer, keys, other.scope):
            return f"{writer.one(('EXISTS', 'NOT EXISTS'))} (SELECT 1 FROM {other.text} WHERE {matching})"
        case "in":
            inner_column = expression(writer, other.scope, Type.INT, depth=0)
            function, operator = writer.one(("max", "min")), writer.one(("IN", "NOT IN"))
            return f"{function}({outer_value}) {operator} (SELECT {inner_column} FROM {other.text})"
    call = writer.one(("count(*)", f"sum({outer_value})", f"max({outer_value})"))
    matching = match_keys(writer, keys, other.scope) if writer.chance(40) else None
    where = f" WHERE {matching}" if matching else ""
    value = writer.one(("count(*)", f"max({expression(writer, other.scope, Type.INT, depth=0)})"))
    return f"{call} {writer.one(('>=', '<', '<>'))} (SELECT {value} FROM {other.text}{where})"


def existence(writer: QueryWriter, scope: Columns, inner: Inner, depth: int) -> str:
    other = relation(writer, inner, depth - 1)
    where = _correlate(writer, scope, other)
    if writer.chance(25):
        where = f"{where} AND {condition(writer, _list_referable(scope) + other.scope, depth=1)}"
    return f"{writer.one(('EXISTS', 'NOT EXISTS'))} (SELECT 1 FROM {other.text} WHERE {where})"


def membership(writer: QueryWriter, scope: Columns, inner: Inner, depth: int) -> str:
    other = relation(writer, inner, depth - 1)
    shared = [c for c in exact(scope) if exact(other.scope, c.type)]
    if not shared:
        return existence(writer, scope, inner, depth)
    member = writer.one(shared)
    inner_column = writer.one(exact(other.scope, member.type))
    where = f" WHERE {condition(writer, other.scope, depth=1)}" if writer.chance(40) else ""
    return f"{member.text} {writer.one(('IN', 'NOT IN'))} (SELECT {inner_column.text} FROM {other.text}{where})"


def comparison(writer: QueryWriter, scope: Columns, inner: Inner, depth: int) -> str:
    operator = writer.one((">=", "<", "=", "<>"))
    return f"{expression(writer, scope, Type.INT)} {operator} {scalar(writer, scope, inner, depth)}"


def scalar(writer: QueryWriter, scope: Columns, inner: Inner, depth: int) -> str:
    """An aggregate of another relation: of all rows, or of the rows that match the outer row."""
    other = relation(writer, inner, depth - 1)
    call = writer.one(
        ("max({})", "min({})", "sum({})", "count({})", "count(*)", *(c for c, t in COLLECTS if t is Type.INT))
    )
    value = call.format(expression(writer, other.scope, Type.INT, depth=0))
    where = f" WHERE {_correlate(writer, scope, other)}" if writer.chance(60) else ""
    return f"(SELECT {value} FROM {other.text}{where})"


RULES: tuple[Rule, ...] = (existence, membership, comparison)


def _correlate(writer: QueryWriter, scope: Columns, other: Source) -> str:
    """A condition that matches rows with an outer row, or a plain condition if no types match."""
    return match_keys(writer, _list_referable(scope), other.scope) or condition(writer, other.scope, depth=1)


def _list_referable(scope: Columns) -> Columns:
    """The outer columns that a sub-query can refer to; a column merged by USING would be ambiguous."""
    return tuple(c for c in scope if c.within)
