"""Which tables a query reads, by the names that it gives them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sqlglot import Token, TokenType, exp
from sqlglot.errors import SqlglotError

from tidemill.algebra.dialect import VERBATIM, parse_query

_FIRST = frozenset({"SELECT", "WITH", "FROM", "VALUES", "TABLE", "("})
_BEFORE_TABLES = frozenset({"FROM", "JOIN", "TABLE", ","})
_NAMES = frozenset({TokenType.VAR, TokenType.IDENTIFIER})


class NotASelect(ValueError):
    """The text is no query, but a command, or nothing."""


@dataclass(frozen=True, slots=True)
class TableNames:
    """The names of the tables that a query reads, each once, whatever its case."""

    names: tuple[str, ...]
    certain: bool  # False: the query could not be parsed here, so that some of the names may be no tables


def find_table_names(query: str) -> TableNames:
    """The tables that a query reads, those aside that it defines itself; raises `NotASelect` for commands.

    >>> find_table_names("WITH t AS (SELECT k FROM t) SELECT * FROM t JOIN U USING (k)")
    TableNames(names=('t', 'U'), certain=True)
    >>> find_table_names("SELECT window.start FROM t GROUP BY window(ts, '1 hour')")
    TableNames(names=('t',), certain=False)
    >>> find_table_names("SELECT 1 FROM IDENTIFIER('t') JOIN range(5)")
    TableNames(names=('t',), certain=True)
    >>> find_table_names("SELECT IDENTIFIER('id') FROM t, IDENTIFIER('u')")
    TableNames(names=('t', 'u'), certain=True)
    """
    tokens = _tokenize_query(query)
    if not tokens or tokens[0].text.upper() not in _FIRST:
        found = tokens[0].text.upper() if tokens else "nothing"
        raise NotASelect(f"a query begins with SELECT, WITH, FROM, VALUES or TABLE, not with {found}")
    try:
        tree = parse_query(query)
    except (SqlglotError, RecursionError):
        tree = None
    if isinstance(tree, exp.Query):
        return TableNames(_dedupe_names([*_find_free_tables(tree)]), certain=True)
    return TableNames(_dedupe_names([*_guess_tables(tokens)]), certain=False)


def _tokenize_query(query: str) -> list[Token]:
    try:
        return list(VERBATIM.tokenize(query))
    except SqlglotError as error:
        raise NotASelect(f"it cannot be read as SQL: {error}") from error


def _dedupe_names(names: list[str]) -> tuple[str, ...]:
    return tuple({name.lower(): name for name in reversed(names)}.values())[::-1]


def _find_free_tables(tree: exp.Expr) -> Iterator[str]:
    """The tables that no WITH around them defines. One that reads its own name means the table outside."""
    for table in sorted(tree.find_all(exp.Table), key=lambda table: int(table.this.meta.get("start", 0))):
        name = _find_table_name(table)
        if name is not None and name.lower() not in _find_visible_ctes(table):
            yield name


def _find_table_name(table: exp.Table) -> str | None:
    """The name of a table, written plainly or as IDENTIFIER('name'); None for table functions and hints."""
    match table.this:
        case exp.Identifier() if not table.find_ancestor(exp.Hint):
            return ".".join(part.name for part in table.parts)
        case exp.Anonymous(this=str(called), expressions=[exp.Literal(is_string=True) as name]) if (
            called.upper() == "IDENTIFIER"
        ):
            return str(name.name)
        case _:
            return None


def _find_visible_ctes(table: exp.Table) -> set[str]:
    """The names that the WITH clauses around a table define for it."""
    visible: set[str] = set()
    node: exp.Expr = table
    while node.parent is not None:
        within, node = node, node.parent
        with_ = node.args.get("with_")
        if with_ is None and isinstance(node, exp.With):
            before = node.expressions if node.args.get("recursive") else _take_until(node.expressions, within)
            visible |= {definition.alias.lower() for definition in before}
        elif with_ is not None and with_ is not within:
            visible |= {definition.alias.lower() for definition in with_.expressions}
    return visible


def _take_until(definitions: list[exp.Expr], last: exp.Expr) -> Iterator[exp.Expr]:
    for definition in definitions:
        if definition is last:
            return
        yield definition


def _guess_tables(tokens: list[Token]) -> Iterator[str]:
    """Names where tables stand: after FROM, JOIN, TABLE and commas. A name that WITH defines is left out."""
    texts = [token.text.upper() for token in tokens]
    defined = {
        texts[at]
        for at in range(len(tokens) - 2)
        if texts[at + 1 : at + 3] == ["AS", "("] and tokens[at].token_type in _NAMES
    }
    for at in range(1, len(tokens)):
        called = at + 1 < len(tokens) and texts[at + 1] == "("
        if texts[at - 1] in _BEFORE_TABLES and texts[at : at + 2] == ["IDENTIFIER", "("]:
            yield from (token.text for token in tokens[at + 2 : at + 3] if token.token_type is TokenType.STRING)
        elif (
            tokens[at].token_type in _NAMES
            and texts[at - 1] in _BEFORE_TABLES
            and not called
            and texts[at] not in defined
        ):
            yield tokens[at].text
