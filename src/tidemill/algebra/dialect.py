"""Spark SQL as sqlglot parses it, with every function left as the user wrote it.

sqlglot converts the functions that it knows into its own nodes, and may write them back with another spelling. Only the
functions that the algebra must recognise are converted here; all others stay a name and arguments.
"""

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import ClassVar

import sqlglot
from sqlglot import Token, TokenType, exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError
from sqlglot.generators.spark import SparkGenerator
from sqlglot.parsers.spark import SparkParser

AGGREGATES = frozenset(
    "COUNT COUNT_IF SUM AVG MEAN MIN MAX STDDEV STD STDDEV_SAMP STDDEV_POP VARIANCE VAR_SAMP VAR_POP".split()  # noqa: SIM905
)
"""Aggregate functions that sqlglot converts into its own nodes."""

_GENERATORS = {"EXPLODE", "EXPLODE_OUTER", "POSEXPLODE", "POSEXPLODE_OUTER"}
_CONVERTED = AGGREGATES | _GENERATORS | {"ARRAY", "COALESCE", "IF", "NULLIF"}
_SYNTAX = frozenset({"AND", "OR", "CAST", "TRY_CAST", "EXTRACT", "TRIM", "SUBSTRING", "SUBSTR", "OVERLAY", "POSITION"})
_HINTS = frozenset(
    "BROADCAST BROADCASTJOIN MAPJOIN MERGE MERGEJOIN SHUFFLEMERGE SHUFFLE_HASH SHUFFLE_REPLICATE_NL".split()  # noqa: SIM905
)
"""Constructs that are not written as a name and arguments."""


class _Parser(SparkParser):
    FUNCTIONS: ClassVar = {k: v for k, v in SparkParser.FUNCTIONS.items() if k in _CONVERTED}
    FUNCTION_PARSERS: ClassVar = {k: v for k, v in SparkParser.FUNCTION_PARSERS.items() if k in _SYNTAX | _HINTS}


class _Generator(SparkGenerator):
    EXPRESSIONS_WITHOUT_NESTED_CTES: ClassVar = set()  # a WITH stays where the user wrote it


class VerbatimDialect(Spark):
    """Spark's dialect, converting as few functions as possible."""

    Parser = _Parser
    Generator = _Generator


VERBATIM = VerbatimDialect()


_BEFORE_SETS = (TokenType.GROUP_BY, TokenType.COMMA, TokenType.L_PAREN)


class MisparsedQuery(ParseError):
    """A query that sqlglot would parse with a different meaning."""


def parse_query(query: str) -> exp.Expr:
    """The tree of a query; raises `SqlglotError` if it cannot be parsed correctly."""
    _check_tokens(VERBATIM.tokenize(query))
    return sqlglot.parse_one(_escape_quotes(query), dialect=VERBATIM)


def _check_tokens(tokens: Sequence[Token]) -> None:
    for before, token in pairwise(tokens):
        if token.token_type == TokenType.PIPE_GT:  # sqlglot would apply the operators after LIMIT before it
            raise MisparsedQuery("the pipe syntax |> is only supported in batch")
        if token.token_type == TokenType.GROUPING_SETS and before.token_type not in _BEFORE_SETS:
            raise MisparsedQuery("GROUP BY columns with GROUPING SETS behind them is only supported in batch")


@lru_cache(maxsize=8192)
def parse_expression(text: str) -> exp.Expr:
    """The tree of an expression; callers must copy it before they change it."""
    return sqlglot.parse_one(_escape_quotes(text), dialect=VERBATIM)


def to_sql(tree: exp.Expr) -> str:
    return tree.sql(dialect=VERBATIM, comments=False)


def _escape_quotes(text: str) -> str:
    r"""A quote doubled inside a string is one quote to Spark, but two strings to sqlglot; `\'` is one to both.

    >>> print(_escape_quotes("SELECT 'it''s', ''"))
    SELECT 'it\'s', ''
    """
    parts: list[str] = []
    position = 0
    for token in VERBATIM.tokenize(text):
        if token.token_type == TokenType.STRING and token.start == position and parts and parts[-1].endswith("'"):
            parts[-1] = parts[-1][:-1] + "\\'"
            parts.append(text[token.start + 1 : token.end + 1])
        else:
            parts.append(text[position : token.end + 1])
        position = token.end + 1
    return "".join(parts) + text[position:]
