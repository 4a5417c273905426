"""Grouping sets: GROUP BY several sets of keys at once, by GROUPING SETS, ROLLUP or CUBE."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from tidemill.algebra.dialect import to_sql
from tidemill.algebra.expression import build_column, to_expression
from tidemill.algebra.operators import NamedExpression, Operator, Projection, Union
from tidemill.algebra.sql.grouping import group_rows
from tidemill.algebra.sql.reading import NotIncremental
from tidemill.algebra.sql.relation import NameGenerator, TypedRelation
from tidemill.algebra.sql.understood import find_function_name


def group_by_sets(
    rows: TypedRelation,
    sets: list[list[exp.Expr]],
    calls: Mapping[str, exp.Expr],
    grouping: Mapping[str, exp.Expr],
    names: NameGenerator,
) -> tuple[TypedRelation, dict[str, str]]:
    """A union of the sets' groups; a key that a set leaves out is NULL there. Beside it, the columns of all of them."""
    every = {to_sql(k): k for one in sets for k in one}
    columns = {t: names.generate_name("key") for t in every}
    columns |= {t: names.generate_name("set") for t in calls} | {t: names.generate_name("in") for t in grouping}
    parts: list[Operator] = []
    for one in sets:
        inside = {to_sql(k) for k in one}
        keys = {columns[t]: k if t in inside else _build_null_like(k) for t, k in every.items()}
        part, made = group_rows(rows, keys, calls, names)
        items = [NamedExpression(columns[t], build_column(made[t])) for t in calls]
        items += [NamedExpression(n, build_column(n)) for n in keys]
        items += [NamedExpression(columns[t], to_expression(_format_grouping(c, inside))) for t, c in grouping.items()]
        parts.append(Projection(part.op, tuple(items)))
    return TypedRelation(Union(tuple(parts))), columns


def list_grouping_sets(clause: exp.Group | None) -> list[list[exp.Expr]]:
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
        options = _expand_item(item)
        sets = [[*one, *option] for one in sets for option in options]
    return [list({to_sql(k): k for k in one}.values()) for one in sets]


def _expand_item(item: exp.Expr) -> list[list[exp.Expr]]:
    match item:
        case exp.Rollup():
            parts = [_list_members(e) for e in item.expressions]
            return [[k for p in parts[:n] for k in p] for n in range(len(parts), -1, -1)]
        case exp.Cube():
            parts = [_list_members(e) for e in item.expressions]
            chosen: list[list[exp.Expr]] = [[]]
            for part in parts:
                chosen = [[*one, *more] for one in chosen for more in (part, [])]
            return chosen
        case exp.GroupingSets():
            return [option for e in item.expressions for option in _expand_set(e)]
    return [[item]]


def _expand_set(item: exp.Expr) -> list[list[exp.Expr]]:
    return _expand_item(item) if isinstance(item, exp.Rollup | exp.Cube | exp.GroupingSets) else [_list_members(item)]


def _list_members(item: exp.Expr) -> list[exp.Expr]:
    if isinstance(item, exp.Tuple):
        return list(item.expressions)
    return [item.unnest()]


def _format_grouping(call: exp.Expr, inside: set[str]) -> str:
    """GROUPING(x): 1 where the set leaves x out."""
    if find_function_name(call) != "grouping":
        raise NotIncremental("GROUPING_ID is only known in batch")
    return f"CAST({0 if to_sql(call.expressions[0]) in inside else 1} AS TINYINT)"


def _build_null_like(tree: exp.Expr) -> exp.Expr:
    """NULL of the type that the expression has."""
    return exp.Case(ifs=[exp.If(this=exp.false(), true=tree.copy())])
