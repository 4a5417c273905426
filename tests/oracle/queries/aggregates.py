"""Aggregates over the rows of a group or of a window."""

from __future__ import annotations

from dataclasses import dataclass

from tests.oracle.queries.columns import Columns, Type
from tests.oracle.queries.expressions import condition, fill_template, list_applicable
from tests.oracle.queries.writer import QueryWriter


@dataclass(frozen=True, slots=True)
class Aggregate:
    text: str
    type: Type
    exact: bool = True


_ORDERED = tuple(Aggregate(f"{f}({{{t.name.lower()}}})", t) for t in Type if t.scalar for f in ("min", "max"))

SUMS = (
    Aggregate("count(*)", Type.BIGINT),
    Aggregate("sum({int})", Type.BIGINT),
    Aggregate("sum({decimal})", Type.DECIMAL),
    Aggregate("sum({double})", Type.DOUBLE),
    Aggregate("count({string})", Type.BIGINT),
    Aggregate("count({double})", Type.BIGINT),
)

COLLECTS = (
    ("size(collect_list({}))", Type.INT),
    ("size(collect_set({}))", Type.INT),
    ("sort_array(collect_list({}))", Type.ARRAY),
    ("sort_array(collect_set({}))", Type.ARRAY),
)
"""Collected values: an empty array for empty input, where other aggregates are NULL."""

AGGREGATES = (
    *SUMS,
    *SUMS,  # the most common ones
    *_ORDERED,
    Aggregate("avg({int})", Type.DOUBLE, exact=False),
    Aggregate("avg({double})", Type.DOUBLE, exact=False),
    Aggregate("avg({decimal})", Type.DECIMAL, exact=False),
    Aggregate("avg({int} - {int})", Type.DOUBLE, exact=False),
    Aggregate("avg({decimal} + {decimal})", Type.DECIMAL, exact=False),
    Aggregate("avg(CAST({decimal} AS DECIMAL(27, 4)))", Type.DECIMAL, exact=False),
    Aggregate("sum({decimal} - {decimal})", Type.DECIMAL),
    Aggregate("sum({decimal} - {decimal} * 2)", Type.DECIMAL),
    Aggregate("sum(CASE WHEN {boolean} THEN {decimal} ELSE 0 END)", Type.DECIMAL),
    Aggregate("sum(CAST({decimal} AS DECIMAL(32, 4)) + {int})", Type.DECIMAL),
    Aggregate("count({boolean} OR {boolean})", Type.BIGINT),
    Aggregate("count(DISTINCT {int})", Type.BIGINT),
    Aggregate("count(DISTINCT {string})", Type.BIGINT),
    Aggregate("count(DISTINCT {double})", Type.BIGINT),
    Aggregate("sum(DISTINCT {int})", Type.BIGINT),
    Aggregate("sum(DISTINCT {decimal})", Type.DECIMAL),
    Aggregate("var_samp({int})", Type.DOUBLE, exact=False),
    Aggregate("var_pop({int})", Type.DOUBLE, exact=False),
    Aggregate("stddev_samp(CAST({decimal} AS DOUBLE))", Type.DOUBLE, exact=False),
    Aggregate("stddev_pop({int})", Type.DOUBLE, exact=False),
    Aggregate("bool_and({boolean})", Type.BOOLEAN),
    Aggregate("bool_or({boolean})", Type.BOOLEAN),
    *(Aggregate(call.replace("{}", "{int}"), type) for call, type in COLLECTS),
)


def aggregate(writer: QueryWriter, scope: Columns) -> Aggregate:
    """An aggregate call, sometimes with a filter."""
    kind = writer.one(list_applicable(scope, AGGREGATES, lambda a: a.text))
    text = fill_template(writer, scope, kind.text, kind.type, depth=1)
    if writer.chance(20) and "collect_" not in text:
        text = f"{text} FILTER (WHERE {condition(writer, scope)})"
    return Aggregate(text, kind.type, kind.exact)


HAVING = (
    "count(*) > 1",
    "count({string}) <> 1",
    "max({int}) >= 1",
    "avg({int}) > 1",
    "sum({int}) < 10",
    "min({string}) IS NOT NULL",
    "count(*) = 1 OR max({date}) IS NULL",
)


def having(writer: QueryWriter, scope: Columns) -> str:
    return fill_template(writer, scope, writer.one(list_applicable(scope, HAVING, str)), Type.BOOLEAN, depth=1)
