"""Grouping sets: GROUP BY several sets of keys at once, by GROUPING SETS, ROLLUP or CUBE."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from tidemill.algebra.dialect import text_of
from tidemill.algebra.expression import column, expression
from tidemill.algebra.operators import Named, Operator, Project, Union
from tidemill.algebra.sql.grouping import group
from tidemill.algebra.sql.reading import NotIncremental
from tidemill.algebra.sql.relation import Names, Relation
from tidemill.algebra.sql.understood import function_name


def many_sets(
    rows: Relation,
    sets: list[list[exp.Expr]],
    calls: Mapping[str, exp.Expr],
    grouping: Mapping[str, exp.Expr],
    names: Names,
) -> tuple[Relation, dict[str, str]]:
    """A union of the sets' groups; a key that a set leaves out is NULL there. Beside it, the columns of all of them."""
    every = {text_of(k): k for one in sets for k in one}
    columns = {t: names.fresh("key") for t in every}
    columns |= {t: names.fresh("set") for t in calls} | {t: names.fresh("in") for t in grouping}
    parts: list[Operator] = []
    for one in sets:
        inside = {text_of(k) for k in one}
        keys = {columns[t]: k if t in inside else _null_like(k) for t, k in every.items()}
        part, made = group(rows, keys, calls, names)
        items = [Named(columns[t], column(made[t])) for t in calls]
        items += [Named(n, column(n)) for n in keys]
        items += [Named(columns[t], expression(_grouping(c, inside))) for t, c in grouping.items()]
        parts.append(Project(part.op, tuple(items)))
    return Relation(Union(tuple(parts))), columns


def grouping_sets(clause: exp.Group | None) -> list[list[exp.Expr]]:
    """The sets of keys of a GROUP BY: one, unless it has GROUPING SETS, ROLLUP or CUBE."""
    if clause is None:
        return [[]]
    items = [*clause.expressions]
    for extra in ("rollup", "cube", "grouping_sets"):
        for item in clause.args.get(extra) or []:
            if isinstance(item, exp.Rollup | exp.Cube) and not item.expressions:  # GROUP BY a, b WITH ROLLUP
                items = [type(item)(expressions=items)]
            else:
                items.append(item)
    sets: list[list[exp.Expr]] = [[]]
    for item in items:
        options = _options(item)
        sets = [[*one, *option] for one in sets for option in options]
    return [list({text_of(k): k for k in one}.values()) for one in sets]


def _options(item: exp.Expr) -> list[list[exp.Expr]]:
    match item:
        case exp.Rollup():
            parts = [_members(e) for e in item.expressions]
            return [[k for p in parts[:n] for k in p] for n in range(len(parts), -1, -1)]
        case exp.Cube():
            parts = [_members(e) for e in item.expressions]
            chosen: list[list[exp.Expr]] = [[]]
            for part in parts:
                chosen = [[*one, *more] for one in chosen for more in (part, [])]
            return chosen
        case exp.GroupingSets():
            return [option for e in item.expressions for option in _set_options(e)]
    return [[item]]


def _set_options(item: exp.Expr) -> list[list[exp.Expr]]:
    return _options(item) if isinstance(item, exp.Rollup | exp.Cube | exp.GroupingSets) else [_members(item)]


def _members(item: exp.Expr) -> list[exp.Expr]:
    if isinstance(item, exp.Tuple):
        return list(item.expressions)
    return [item.unnest()]


def _grouping(call: exp.Expr, inside: set[str]) -> str:
    """GROUPING(x): 1 where the set leaves x out."""
    if function_name(call) != "grouping":
        raise NotIncremental("GROUPING_ID is only known in batch")
    return f"CAST({0 if text_of(call.expressions[0]) in inside else 1} AS TINYINT)"


def _null_like(tree: exp.Expr) -> exp.Expr:
    """NULL of the type that the expression has."""
    return exp.Case(ifs=[exp.If(this=exp.false(), true=tree.copy())])
