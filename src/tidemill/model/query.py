"""Spark SQL as text: what is the same query, and which queries answer differently each time."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import Token, TokenType, tokenize
from sqlglot.errors import SqlglotError

_NAMES = frozenset({TokenType.VAR, TokenType.IDENTIFIER, TokenType.STRING})

VARYING = frozenset(
    {
        *("RAND", "RANDOM", "RANDN", "RANDSTR", "UNIFORM", "UUID", "SHUFFLE", "MONOTONICALLY_INCREASING_ID"),
        *("CURRENT_TIMESTAMP", "CURRENT_DATE", "CURRENT_TIME", "CURDATE", "NOW", "LOCALTIMESTAMP", "UNIX_TIMESTAMP"),
        *("SPARK_PARTITION_ID", "INPUT_FILE_NAME", "TABLESAMPLE"),
    }
)
"""Functions whose result is another one each time, at least if their arguments say nothing else."""


def normalised(query: str) -> str:
    """The query without comments, and with spacing and the case of keywords and functions made uniform.

    Names and strings stay as they are written: the case of a column's name is part of the result.

    >>> normalised("select  count( x ) as N -- all of them\\nfrom t")
    'SELECT COUNT ( x ) AS N FROM t'
    """
    tokens = _tokens(query)
    return " ".join(query.split()) if tokens is None else "".join(_spelled(query, tokens)).lstrip()


def varies(query: str) -> bool:
    """Does it use something that gives another result each time?

    >>> varies("SELECT rand() FROM t"), varies("SELECT 'rand()' FROM t")
    (True, False)
    """
    return any(t.text.upper() in VARYING for t in _tokens(query) or () if t.token_type is not TokenType.STRING)


def _tokens(query: str) -> list[Token] | None:
    try:
        return tokenize(query, dialect="spark")
    except SqlglotError:
        return None


def _spelled(query: str, tokens: list[Token]) -> Iterator[str]:
    """Two strings side by side are another one than two with a space between: the first is a quote inside one."""
    end = -1
    for at, token in enumerate(tokens):
        raw = query[token.start : token.end + 1]
        called = at + 1 < len(tokens) and tokens[at + 1].token_type is TokenType.L_PAREN
        joined = token.token_type is TokenType.STRING and at > 0 and token.start == end + 1 and raw[0] == query[end]
        yield "" if joined else " "
        yield raw if token.token_type in _NAMES and not (called and token.token_type is TokenType.VAR) else raw.upper()
        end = token.end
