"""Sub-queries inside expressions: EXISTS, IN, and scalar aggregates, correlated or not."""

from __future__ import annotations

from collections.abc import Callable

from tests.oracle.queries.aggregates import COLLECTS
from tests.oracle.queries.columns import Columns, Type
from tests.oracle.queries.expressions import condition, expression
from tests.oracle.queries.pen import Pen, exact
from tests.oracle.queries.sources import Inner, Source, matched, relation

Rule = Callable[[Pen, Columns, Inner, int], str]


def restriction(pen: Pen, scope: Columns, inner: Inner, depth: int) -> str:
    """A WHERE condition, perhaps with a sub-query.

    An IN among other conditions is never under a NOT: there Spark's own answer to NULLs is doubtful.
    """
    plain = condition(pen, scope)
    if not pen.chance(35):
        return plain
    rule = pen.one(RULES)
    tested = rule(pen, scope, inner, depth)
    if pen.chance(20):
        tested = f"NOT ({tested})"
    if pen.chance(60):
        return tested
    both = f"({plain}) {pen.one(('AND', 'OR'))} {tested}"
    return f"NOT ({both})" if rule is not membership and pen.chance(25) else both


def having(pen: Pen, scope: Columns, keys: Columns, inner: Inner, depth: int) -> str:
    """A condition on groups by another relation: the groups' keys and aggregates are what it may name from outside."""
    other = relation(pen, inner, depth - 1)
    own = expression(pen, scope, Type.INT, depth=0)
    match pen.one(("exists", "in", "scalar")):
        case "exists" if matching := matched(pen, keys, other.scope):
            return f"{pen.one(('EXISTS', 'NOT EXISTS'))} (SELECT 1 FROM {other.text} WHERE {matching})"
        case "in":
            found = expression(pen, other.scope, Type.INT, depth=0)
            return f"{pen.one(('max', 'min'))}({own}) {pen.one(('IN', 'NOT IN'))} (SELECT {found} FROM {other.text})"
    call = pen.one(("count(*)", f"sum({own})", f"max({own})"))
    matching = matched(pen, keys, other.scope) if pen.chance(40) else None
    where = f" WHERE {matching}" if matching else ""
    value = pen.one(("count(*)", f"max({expression(pen, other.scope, Type.INT, depth=0)})"))
    return f"{call} {pen.one(('>=', '<', '<>'))} (SELECT {value} FROM {other.text}{where})"


def existence(pen: Pen, scope: Columns, inner: Inner, depth: int) -> str:
    other = relation(pen, inner, depth - 1)
    where = _correlated(pen, scope, other)
    if pen.chance(25):
        where = f"{where} AND {condition(pen, _named(scope) + other.scope, depth=1)}"
    return f"{pen.one(('EXISTS', 'NOT EXISTS'))} (SELECT 1 FROM {other.text} WHERE {where})"


def membership(pen: Pen, scope: Columns, inner: Inner, depth: int) -> str:
    other = relation(pen, inner, depth - 1)
    shared = [c for c in exact(scope) if exact(other.scope, c.type)]
    if not shared:
        return existence(pen, scope, inner, depth)
    member = pen.one(shared)
    found = pen.one(exact(other.scope, member.type))
    where = f" WHERE {condition(pen, other.scope, depth=1)}" if pen.chance(40) else ""
    return f"{member.text} {pen.one(('IN', 'NOT IN'))} (SELECT {found.text} FROM {other.text}{where})"


def comparison(pen: Pen, scope: Columns, inner: Inner, depth: int) -> str:
    operator = pen.one((">=", "<", "=", "<>"))
    return f"{expression(pen, scope, Type.INT)} {operator} {scalar(pen, scope, inner, depth)}"


def scalar(pen: Pen, scope: Columns, inner: Inner, depth: int) -> str:
    """An aggregate of another relation: of all of it, or of the rows that match this one."""
    other = relation(pen, inner, depth - 1)
    call = pen.one(
        ("max({})", "min({})", "sum({})", "count({})", "count(*)", *(c for c, t in COLLECTS if t is Type.INT))
    )
    value = call.format(expression(pen, other.scope, Type.INT, depth=0))
    where = f" WHERE {_correlated(pen, scope, other)}" if pen.chance(60) else ""
    return f"(SELECT {value} FROM {other.text}{where})"


RULES: tuple[Rule, ...] = (existence, membership, comparison)


def _correlated(pen: Pen, scope: Columns, other: Source) -> str:
    """Rows of the other relation that match a row outside, or a plain condition where no types meet."""
    return matched(pen, _named(scope), other.scope) or condition(pen, other.scope, depth=1)


def _named(scope: Columns) -> Columns:
    """What a sub-query can name from outside: a column that USING merged could be taken for one of its own."""
    return tuple(c for c in scope if c.within)
