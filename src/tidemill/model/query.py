"""Spark SQL as text: what is the same query, and which queries answer differently each time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sqlglot import Token, TokenType, exp, parse_one, tokenize
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


def normalise_query(query: str) -> str:
    """The query without comments, and with spacing and the case of keywords and functions made uniform.

    Names and strings stay as they are written: the case of a column's name is part of the result.

    >>> normalise_query("select  count( x ) as N -- all of them\\nfrom t")
    'SELECT COUNT ( x ) AS N FROM t'
    """
    tokens = _tokenize_query(query)
    return " ".join(query.split()) if tokens is None else "".join(_format_tokens(query, tokens)).lstrip()


def is_nondeterministic(query: str) -> bool:
    """Does it use something that gives another result each time?

    >>> is_nondeterministic("SELECT rand() FROM t"), is_nondeterministic("SELECT 'rand()' FROM t")
    (True, False)
    """
    return any(t.text.upper() in VARYING for t in _tokenize_query(query) or () if t.token_type is not TokenType.STRING)


def can_rename_table(query: str, name: str) -> bool:
    """Does the query use the name for a table only, so that a table of another name gives the same result?

    A table under another alias, a column, a CTE or a field of the name might mean something else.

    >>> can_rename_table("SELECT t.x FROM t", "t"), can_rename_table("SELECT t FROM t", "t")
    (True, False)
    """
    try:
        tree = parse_one(query, dialect="spark")
    except SqlglotError:
        return False
    found = [i for i in tree.find_all(exp.Identifier) if i.name.lower() == name.lower()]
    spelled = [t for t in _tokenize_query(query) or () if _is_name(t, name)]
    return len(found) == len(spelled) and all(_is_table(i) or _is_qualifier(i) for i in found)


def rename_tables(query: str, names: Mapping[str, str]) -> str:
    """The query with every use of these names replaced.

    >>> rename_tables("SELECT `T`.x FROM t", {"t": "u"})
    'SELECT u.x FROM u'
    """
    lower = {name.lower(): to for name, to in names.items()}
    tokens = [t for t in _tokenize_query(query) or () if any(_is_name(t, name) for name in names)]
    for token in reversed(tokens):
        query = f"{query[: token.start]}{lower[token.text.lower()]}{query[token.end + 1 :]}"
    return query


def _is_name(token: Token, name: str) -> bool:
    return token.token_type is not TokenType.STRING and token.text.lower() == name.lower()


def _is_table(name: exp.Expression) -> bool:
    """Is it a table that has no other name?"""
    table = name.parent
    return isinstance(table, exp.Table) and table.this is name and not (table.args.get("db") or table.alias)


def _is_qualifier(name: exp.Expression) -> bool:
    """Does it stand before a column of a table that is read beside it?"""
    column = name.parent
    if not isinstance(column, exp.Column) or column.args.get("table") is not name or column.args.get("db"):
        return False
    select = column.find_ancestor(exp.Select)
    parts = (
        [] if select is None else [select.args.get("from_") or select.args.get("from"), *select.args.get("joins", ())]
    )
    sources = [part.this for part in parts if part is not None]
    return any(isinstance(t, exp.Table) and _is_table(t.this) and t.name.lower() == name.name.lower() for t in sources)


def _tokenize_query(query: str) -> list[Token] | None:
    try:
        return tokenize(query, dialect="spark")
    except SqlglotError:
        return None


def _format_tokens(query: str, tokens: list[Token]) -> Iterator[str]:
    """Two strings side by side are another one than two with a space between: the first is a quote inside one."""
    end = -1
    for at, token in enumerate(tokens):
        raw = query[token.start : token.end + 1]
        called = at + 1 < len(tokens) and tokens[at + 1].token_type is TokenType.L_PAREN
        joined = token.token_type is TokenType.STRING and at > 0 and token.start == end + 1 and raw[0] == query[end]
        yield "" if joined else " "
        yield raw if token.token_type in _NAMES and not (called and token.token_type is TokenType.VAR) else raw.upper()
        end = token.end
