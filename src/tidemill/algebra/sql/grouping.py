"""Aggregation: calls of aggregate functions over groups, as operators.

Each set of DISTINCT arguments is aggregated over the distinct rows of it, apart from the rest; the parts, which have
the same groups, are joined. An aggregate of everything is a group by a constant, joined to a single row that is
there even when there are no rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from tidemill.algebra.dialect import text_of
from tidemill.algebra.expression import Expression, column, expression, quoted
from tidemill.algebra.operators import Fold, Group, Join, JoinKind, Named, One, Project, distinct, rename, select
from tidemill.algebra.sql.functions import EMPTY_OF_NOTHING, NULL_OF_NOTHING, ZERO_OF_NOTHING
from tidemill.algebra.sql.reading import NotIncremental, expressed, is_aggregate, without_queries
from tidemill.algebra.sql.relation import Names, Relation
from tidemill.algebra.sql.understood import function_name
from tidemill.algebra.typing import groupable, type_of


def aggregate_calls(trees: Sequence[exp.Expr]) -> dict[str, exp.Expr]:
    """The aggregate calls in some expressions, outermost, each once, by their text; windows are not aggregates."""
    found: dict[str, exp.Expr] = {}
    for tree in trees:
        for node in tree.walk(prune=lambda n: isinstance(n, exp.Window | exp.Query) or _call(n)):
            if _call(node) and not isinstance(node.parent, exp.Window):
                found.setdefault(text_of(node), node)
    for tree in trees:
        for window in tree.find_all(exp.Window):
            inner = [window.this.expressions, window.args.get("partition_by") or [], window.args.get("order")]
            parts = [p for group in inner for p in (group if isinstance(group, list) else [group]) if p is not None]
            if isinstance(window.this, exp.Func) and window.this.args.get("this") is not None:
                parts.append(window.this.this)
            found |= aggregate_calls([p for p in parts if isinstance(p, exp.Expr)])
    return found


def _call(node: exp.Expr) -> bool:
    if isinstance(node, exp.Filter | exp.IgnoreNulls | exp.RespectNulls | exp.WithinGroup):
        return _call(node.this)
    return is_aggregate(node)


def group(
    relation: Relation, keys: Mapping[str, exp.Expr], calls: Mapping[str, exp.Expr], names: Names
) -> tuple[Relation, dict[str, str]]:
    """Groups by named key expressions; returns them with a column for each call, by the call's text."""
    _check_keys(relation, keys)
    if not keys:
        return _whole(relation, calls, names)
    relation = relation.extended({n: t for n, t in keys.items() if n not in relation.columns})
    made = {text: names.fresh("agg") for text in calls}
    parts = [
        _part(relation, tuple(keys), {made[t]: calls[t] for t in texts}, names)
        for texts in _by_distinct(calls).values()
    ]  # fmt: skip
    first, *rest = parts or [Relation(Group(relation.op, tuple(keys)), relation.types)]
    for part in rest:
        first = _beside(first, part, tuple(keys), names)
    return first, made


def _check_keys(relation: Relation, keys: Mapping[str, exp.Expr]) -> None:
    for name, tree in keys.items():
        if not groupable(relation.types.get(name) or type_of(tree, relation.types)):
            raise NotIncremental(f"{text_of(tree)} holds a map, and Spark cannot group by maps")


def _whole(relation: Relation, calls: Mapping[str, exp.Expr], names: Names) -> tuple[Relation, dict[str, str]]:
    """One row, also of nothing: then the calls have the values that they have of no rows."""
    constant = names.fresh("all")
    grouped, made = group(relation, {constant: exp.Literal.number(0)}, calls, names)
    one = Join(One(), grouped.op, JoinKind.LEFT, (("_one", constant),))
    items = [Named(made[t], of_nothing(call, made[t])) for t, call in calls.items()]
    return Relation(Project(one, tuple(items) or select(one, ("_one",)).items), grouped.types), made


def of_nothing(call: exp.Expr, name: str) -> Expression:
    """The column that holds a call's value, with the value of no rows where a join found no group."""
    function = function_name(_unfiltered(call)[0])
    if function in ZERO_OF_NOTHING:
        return expression(f"COALESCE({quoted(name)}, 0)")
    if function in EMPTY_OF_NOTHING:
        return expression(f"COALESCE({quoted(name)}, ARRAY())")
    if function not in NULL_OF_NOTHING:
        raise NotIncremental(f"{function}() where there may be no rows, as without GROUP BY, is only known in batch")
    return column(name)


def _by_distinct(calls: Mapping[str, exp.Expr]) -> dict[str, list[str]]:
    """The calls by their set of DISTINCT arguments; "" for those without."""
    found: dict[str, list[str]] = {}
    for text, call in calls.items():
        found.setdefault(_distinct_of(call), []).append(text)
    return found


def _distinct_of(call: exp.Expr) -> str:
    inner, condition = _unfiltered(call)
    marked = inner.find(exp.Distinct)
    if marked is None or function_name(inner) in ("min", "max"):
        return ""
    if function_name(inner) not in ("count", "sum", "avg", "collect_set", "mean"):
        raise NotIncremental(f"{text_of(inner)} is only known in batch")
    return f"{', '.join(text_of(e) for e in marked.expressions)} | {text_of(condition) if condition else ''}"


def _unfiltered(call: exp.Expr) -> tuple[exp.Expr, exp.Expr | None]:
    if isinstance(call, exp.Filter):
        return call.this, call.expression.this
    return call, None


def _part(relation: Relation, keys: tuple[str, ...], calls: Mapping[str, exp.Expr], names: Names) -> Relation:
    """The calls over one set of DISTINCT arguments."""
    first = next(iter(calls.values()))
    if _distinct_of(first):
        relation, calls = _over_distinct(relation, keys, calls, names)
    folds = tuple(_fold(name, call, relation) for name, call in calls.items())
    types = {k: relation.types.get(k, "") for k in keys} | {f.name: _result_type(f) for f in folds}
    return Relation(Group(relation.op, keys, folds), types)


def _over_distinct(
    relation: Relation, keys: tuple[str, ...], calls: Mapping[str, exp.Expr], names: Names
) -> tuple[Relation, dict[str, exp.Expr]]:
    """The distinct rows of keys and arguments, and the calls over those."""
    inner, condition = _unfiltered(next(iter(calls.values())))
    marked = inner.find(exp.Distinct)
    assert marked is not None
    arguments = {names.fresh("arg"): _when(condition, e) for e in marked.expressions}
    rows = relation.extended(arguments)
    kept = Relation(distinct(select(rows.op, (*keys, *arguments))), rows.types)
    again = [exp.Column(this=exp.Identifier(this=n, quoted=True)) for n in arguments]
    return kept, {name: _same_call(_unfiltered(call)[0], again) for name, call in calls.items()}


def _same_call(call: exp.Expr, arguments: list[exp.Column]) -> exp.Expr:
    name = function_name(call)
    if name == "count" and len(arguments) > 1:
        there = exp.and_(*(exp.Not(this=exp.Is(this=a.copy(), expression=exp.Null())) for a in arguments))
        return exp.Count(this=exp.Case(ifs=[exp.If(this=there, true=exp.Literal.number(1))]))
    return exp.Anonymous(this=name, expressions=[a.copy() for a in arguments])


def _when(condition: exp.Expr | None, value: exp.Expr) -> exp.Expr:
    """The value where the condition holds, else NULL."""
    if condition is None:
        return value.copy()
    return exp.Case(ifs=[exp.If(this=condition.copy(), true=value.copy())])


def _fold(name: str, call: exp.Expr, relation: Relation) -> Fold:
    inner, condition = _unfiltered(call)
    function = function_name(inner)
    arguments = _arguments(inner)
    if function not in _PLAIN or len(arguments) > 1:
        columns = tuple(expressed(c.copy()) for c in without_queries(call).find_all(exp.Column))
        return Fold(name, function, columns, text=_text(call))
    if not arguments:
        if condition is None:
            return Fold(name, "count")
        arguments = [exp.Literal.number(1)]
    values = tuple(expressed(_when(condition, a)) for a in arguments)
    kind = type_of(arguments[0], relation.types) if len(arguments) == 1 else ""
    return Fold(name, _PLAIN[function], values, kind)


_SAME = (
    "count", "count_if", "sum", "avg", "min", "max", "variance", "var_samp", "var_pop", "stddev", "stddev_samp",
    "stddev_pop", "std", "bool_and", "every", "bool_or", "any", "some",
)  # fmt: skip
_PLAIN = {name: name for name in _SAME} | {"mean": "avg", "variance_pop": "var_pop"}
"""Aggregates whose arguments are values of a row, NULLs ignored, so that a filter can make them NULL."""


def _arguments(call: exp.Expr) -> list[exp.Expr]:
    given = call.expressions if isinstance(call, exp.Anonymous) else [call.this, *call.expressions]
    unwrapped = [a.expressions[0] if isinstance(a, exp.Distinct) else a for a in given if a is not None]
    return [a for a in unwrapped if not isinstance(a, exp.Star)]


def _text(call: exp.Expr) -> str:
    return text_of(from_flat(call))


def from_flat(call: exp.Expr) -> exp.Expr:
    made = call.copy()
    for found in made.find_all(exp.Column):
        found.this.set("quoted", True)
    return made


def _result_type(fold: Fold) -> str:
    if fold.function in ("count", "count_if"):
        return "BIGINT"
    if fold.function in ("min", "max"):
        return fold.type
    if fold.function == "sum" and fold.type in ("TINYINT", "SMALLINT", "INT", "BIGINT"):
        return "BIGINT"
    return "DOUBLE" if fold.type in ("DOUBLE", "FLOAT") else ""


def _beside(left: Relation, right: Relation, keys: tuple[str, ...], names: Names) -> Relation:
    """Two aggregates of the same groups, side by side."""
    again = {k: names.fresh("same") for k in keys}
    other = rename(right.op, {c: again.get(c, c) for c in right.columns})
    op = Join(left.op, other, JoinKind.INNER, tuple(again.items()), safe=True)
    values = tuple(c for c in right.columns if c not in keys)
    return Relation(select(op, (*left.columns, *values)), {**right.types, **left.types})
