"""Spark SQL as sqlglot reads it, with every function left as the user wrote it.

sqlglot turns functions that it knows into its own, and back into text with sometimes another spelling. Here only
those that the algebra must recognise are read; all others stay a name and arguments.
"""

from __future__ import annotations

from functools import lru_cache
from typing import ClassVar

import sqlglot
from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.generators.spark import SparkGenerator
from sqlglot.parsers.spark import SparkParser

AGGREGATES = frozenset(
    "COUNT COUNT_IF SUM AVG MEAN MIN MAX STDDEV STD STDDEV_SAMP STDDEV_POP VARIANCE VAR_SAMP VAR_POP".split()  # noqa: SIM905
)
"""Aggregate functions that sqlglot reads as its own."""

_READ = AGGREGATES | {"COALESCE", "IF", "NULLIF", "EXPLODE", "EXPLODE_OUTER", "POSEXPLODE", "POSEXPLODE_OUTER"}


class _Parser(SparkParser):
    FUNCTIONS: ClassVar = {k: v for k, v in SparkParser.FUNCTIONS.items() if k in _READ}


class _Generator(SparkGenerator):
    EXPRESSIONS_WITHOUT_NESTED_CTES: ClassVar = set()  # a WITH stays where the user wrote it


class Verbatim(Spark):
    """Spark's dialect, reading as few functions as possible."""

    Parser = _Parser
    Generator = _Generator


VERBATIM = Verbatim()


def parse(query: str) -> exp.Expr:
    return sqlglot.parse_one(_escaped(query), dialect=VERBATIM)


@lru_cache(maxsize=8192)
def parse_expression(text: str) -> exp.Expr:
    """The tree of an expression; callers must copy it before they change it."""
    return sqlglot.parse_one(_escaped(text), dialect=VERBATIM)


def text_of(tree: exp.Expr) -> str:
    return tree.sql(dialect=VERBATIM, comments=False)


def _escaped(text: str) -> str:
    r"""A quote doubled inside a string is one quote to Spark, but two strings to sqlglot; `\'` is one to both.

    >>> print(_escaped("SELECT 'it''s', ''"))
    SELECT 'it\'s', ''
    """
    parts: list[str] = []
    at = 0
    for token in VERBATIM.tokenize(text):
        if token.token_type == sqlglot.TokenType.STRING and token.start == at and parts and parts[-1].endswith("'"):
            parts[-1] = parts[-1][:-1] + "\\'"
            parts.append(text[token.start + 1 : token.end + 1])
        else:
            parts.append(text[at : token.end + 1])
        at = token.end + 1
    return "".join(parts) + text[at:]
