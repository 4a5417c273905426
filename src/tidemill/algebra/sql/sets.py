"""Grouping sets: GROUP BY several sets of keys at once, by GROUPING SETS, ROLLUP or CUBE."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain, product

from sqlglot import exp

from tidemill.algebra.dialect import to_sql
from tidemill.algebra.expression import build_column, to_expression
from tidemill.algebra.operators import NamedExpression, Operator, Projection, Union, to_items
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
    """The union of the sets' groups, where a key that a set omits is NULL; also returns the column of each key and
    call.
    """
    all_keys = {to_sql(k): k for grouping_set in sets for k in grouping_set}
    columns = {t: names.generate_name("key") for t in all_keys}
    columns |= {t: names.generate_name("set") for t in calls} | {t: names.generate_name("in") for t in grouping}
    parts: list[Operator] = []
    for grouping_set in sets:
        present = {to_sql(k) for k in grouping_set}
        keys = {columns[t]: k if t in present else _build_null_like(k) for t, k in all_keys.items()}
        part, call_columns = group_rows(rows, keys, calls, names)
        items = [NamedExpression(columns[t], build_column(call_columns[t])) for t in calls]
        items += to_items(keys)
        items += [NamedExpression(columns[t], to_expression(_format_grouping(c, present))) for t, c in grouping.items()]
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
    sets = (chain.from_iterable(options) for options in product(*map(_expand_item, items)))
    return [list({to_sql(k): k for k in grouping_set}.values()) for grouping_set in sets]


def _expand_item(item: exp.Expr) -> list[list[exp.Expr]]:
    match item:
        case exp.Rollup():
            parts = [_list_members(e) for e in item.expressions]
            return [[k for p in parts[:n] for k in p] for n in range(len(parts), -1, -1)]
        case exp.Cube():
            subsets = product(*((_list_members(e), list[exp.Expr]()) for e in item.expressions))
            return [list(chain.from_iterable(subset)) for subset in subsets]
        case exp.GroupingSets():
            return [option for e in item.expressions for option in _expand_set(e)]
    return [[item]]


def _expand_set(item: exp.Expr) -> list[list[exp.Expr]]:
    return _expand_item(item) if isinstance(item, exp.Rollup | exp.Cube | exp.GroupingSets) else [_list_members(item)]


def _list_members(item: exp.Expr) -> list[exp.Expr]:
    if isinstance(item, exp.Tuple):
        return list(item.expressions)
    return [item.unnest()]


def _format_grouping(call: exp.Expr, present: set[str]) -> str:
    """GROUPING(x): 1 if the set omits x."""
    if find_function_name(call) != "grouping":
        raise NotIncremental("GROUPING_ID is only supported in batch")
    return f"CAST({0 if to_sql(call.expressions[0]) in present else 1} AS TINYINT)"


def _build_null_like(tree: exp.Expr) -> exp.Expr:
    """NULL with the type of the expression."""
    return exp.Case(ifs=[exp.If(this=exp.false(), true=tree.copy())])
