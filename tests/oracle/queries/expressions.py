"""Scalar expressions: templates with typed holes, filled from the columns in scope.

`{int}` is a hole for an expression of that type, `{this}` for one of the result's own type, and `{literal}`
for a literal of it. Where Spark and DuckDB differ (see `duck`) there is no template.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from tests.oracle.queries.columns import LITERALS, Columns, Type
from tests.oracle.queries.writer import QueryWriter, exact

F = TypeVar("F")

ANY = (
    "coalesce({this}, {this})",
    "CASE WHEN {boolean} THEN {this} ELSE {this} END",
    "CASE WHEN {boolean} THEN {this} END",
    "if({boolean}, {this}, {this})",
)
"""Forms of every type."""

SCALAR = ("nullif({this}, {this})", "nvl({this}, {literal})")

FORMS: Mapping[Type, tuple[str, ...]] = {
    Type.INT: (
        "{int} + {int}",
        "{int} - {int}",
        "{int} * 3",
        "0 - {int}",
        "abs({int})",
        "{int} % 2",
        "greatest({int}, {int})",
        "least({int}, {int})",
        "length({string})",
        "year({date})",
        "month({timestamp})",
        "datediff({date}, {date})",
        "CAST({boolean} AS INT)",
        "size({array})",
    ),
    Type.BIGINT: ("{bigint} + {int}", "{bigint} - {bigint}", "CAST({int} AS BIGINT)", "{bigint} % 3"),
    Type.DOUBLE: ("{double} + {double}", "{double} * CAST(0.5 AS DOUBLE)", "CAST({int} AS DOUBLE)", "-{double}"),
    Type.DECIMAL: ("{decimal} + {decimal}", "{decimal} - {decimal}", "CAST({int} AS DECIMAL(12, 2))"),
    Type.STRING: (
        "upper({string})",
        "lower({string})",
        "{string} || {string}",
        "substring({string}, 1, 2)",
        "replace({string}, 'a', 'b')",
        "trim({string})",
        "CAST({int} AS STRING)",
        "CAST({date} AS STRING)",
        "CAST({boolean} AS STRING)",
    ),
    Type.BOOLEAN: (
        "{int} = {int}",
        "{int} < {int}",
        "{bigint} >= {int}",
        "{double} > {double}",
        "{double} = {double}",
        "{decimal} <= {decimal}",
        "{string} <> {string}",
        "{string} < {string}",
        "{string} LIKE 'a%'",
        "{date} <= {date}",
        "{timestamp} > {timestamp}",
        "{string} <=> {string}",
        "{double} <=> {double}",
        "{int} IN (1, 2)",
        "{int} NOT IN (1, 3)",
        "{string} IN ('a', NULL)",
        "{int} BETWEEN {int} AND {int}",
        "{date} NOT BETWEEN DATE '2023-01-01' AND DATE '2024-01-01'",
        "{int} IS NULL",
        "{string} IS NOT NULL",
        "{double} IS NULL",
        "{array} IS NOT NULL",
        "{struct} IS NULL",
        "{boolean} AND {boolean}",
        "{boolean} OR {boolean}",
        "NOT {boolean}",
    ),
    Type.DATE: ("date_add({date}, 30)", "CAST({timestamp} AS DATE)", "last_day({date})"),
    Type.TIMESTAMP: ("date_trunc('HOUR', {timestamp})", "{timestamp} + INTERVAL 1 DAY"),
    Type.STRUCT: (),
    Type.ARRAY: (),
    Type.BINARY: (),
}


@dataclass(frozen=True, slots=True)
class Inexact:
    """A form whose value depends on rounding, so that it may only be selected."""

    text: str
    type: Type


INEXACT = (
    Inexact("try_divide({int}, {int})", Type.DOUBLE),
    Inexact("{double} / CAST(3 AS DOUBLE)", Type.DOUBLE),
    Inexact("CAST({decimal} AS DOUBLE)", Type.DOUBLE),
    Inexact("sqrt(abs({int}))", Type.DOUBLE),
)

_HOLE = re.compile(r"\{(\w+)}")


def expression(writer: QueryWriter, scope: Columns, type: Type, depth: int = 1) -> str:
    """An expression of that type over exact columns: a column, a literal, or a form with smaller ones in it."""
    columns = exact(scope, type)
    if columns and writer.chance(70):
        return writer.one(columns).text
    if depth < 1 or writer.chance(30):
        return writer.one(LITERALS[type])
    return form(writer, scope, type, depth)


def form(writer: QueryWriter, scope: Columns, type: Type, depth: int = 1) -> str:
    """A computed expression, as GROUP BY requires: there a bare number would be a position."""
    forms = FORMS[type] + ANY + (SCALAR if type.scalar else ())
    return f"({fill_template(writer, scope, writer.one(list_applicable(scope, forms, str)), type, depth - 1)})"


def condition(writer: QueryWriter, scope: Columns, depth: int = 2) -> str:
    """A condition for a filter: never a bare column or literal."""
    return fill_template(
        writer, scope, writer.one(list_applicable(scope, FORMS[Type.BOOLEAN], str)), Type.BOOLEAN, depth - 1
    )


def list_applicable(scope: Columns, forms: Sequence[F], text: Callable[[F], str]) -> Sequence[F]:
    """The forms that columns of this scope can fill, so that few expressions are constant; otherwise all."""
    present = {c.type.name.lower() for c in exact(scope, *Type)} | {"this", "literal", "boolean"}
    return [f for f in forms if present.issuperset(_HOLE.findall(text(f)))] or forms


def fill_template(writer: QueryWriter, scope: Columns, form: str, this: Type, depth: int) -> str:
    def fill(hole: re.Match[str]) -> str:
        match hole[1]:
            case "this":
                return expression(writer, scope, this, depth)
            case "literal":
                return writer.one(LITERALS[this])
            case name:
                return expression(writer, scope, Type[name.upper()], depth)

    return _HOLE.sub(fill, form)
