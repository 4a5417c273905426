"""Expressions: Spark SQL text over named columns.

The algebra treats an expression as opaque; it only needs the set of columns that it reads. A column is written as one
quoted name, dots included: `` `p.url` `` is the column `url` of `p`, and `` `p`.`url` `` the field `url` of column `p`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from sqlglot import exp

from tidemill.algebra.dialect import parse_expression, to_sql


@dataclass(frozen=True, slots=True)
class Expression:
    """A deterministic expression of one row."""

    text: str
    columns: frozenset[str] = field(compare=False)

    @property
    def column_name(self) -> str | None:
        """The column's name, if the expression is a bare column."""
        name = next(iter(self.columns)) if len(self.columns) == 1 else None
        return name if name is not None and self.text == quote_name(name) else None

    def rename_columns(self, names: Mapping[str, str]) -> Expression:
        if not self.columns & names.keys():
            return self
        tree = parse_expression(self.text).copy()
        for column in _find_names(tree):
            if column.name in names:
                column.set("this", names[column.name])
        return expression_from_tree(tree)

    def __str__(self) -> str:
        return self.text


def quote_name(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def quote_text(text: str) -> str:
    """A text as a literal.

    >>> quote_text("it's")
    "'it\\\\'s'"
    """
    return to_sql(exp.Literal.string(text))


def build_column(name: str) -> Expression:
    return Expression(quote_name(name), frozenset([name]))


def build_literal(text: str) -> Expression:
    return Expression(text, frozenset())


def expression_from_tree(tree: exp.Expr) -> Expression:
    """An expression from a tree whose columns are single names already, with or without fields of structs."""
    names = _find_names(tree)
    for column in names:
        column.set("quoted", True)
    return Expression(to_sql(tree), frozenset(column.name for column in names))


def _find_names(tree: exp.Expr) -> list[exp.Expr]:
    """The names of the columns that a tree reads, without the fields that may follow."""
    return [column.parts[0] for column in tree.find_all(exp.Column)]


@lru_cache(maxsize=4096)
def to_expression(text: str) -> Expression:
    """Parse an expression over plain column names.

    >>> sorted(to_expression("a + coalesce(`b.c`, 0)").columns)
    ['a', 'b.c']
    >>> to_expression("`row`.a + a").rename_columns({"row": "r", "a": "b"}).text
    '`r`.a + `b`'
    """
    return expression_from_tree(parse_expression(text).copy())
