"""The tables that a query reads, by name."""

from collections.abc import Iterator
from dataclasses import dataclass

from sqlglot import Token, TokenType, exp
from sqlglot.errors import SqlglotError

from tidemill.algebra.dialect import VERBATIM, parse_query

_FIRST = frozenset({"SELECT", "WITH", "FROM", "VALUES", "TABLE", "("})
_BEFORE_TABLES = frozenset({"FROM", "JOIN", "TABLE", ","})
_NAMES = frozenset({TokenType.VAR, TokenType.IDENTIFIER})


class NotASelect(ValueError):
    """The text is not a query, but a command or empty."""


@dataclass(frozen=True, slots=True)
class TableNames:
    """The distinct names of the tables that a query reads, ignoring case."""

    names: tuple[str, ...]
    is_certain: bool  # False: the query could not be parsed here, so some of the names may not be tables


def find_table_names(query: str) -> TableNames:
    """The tables that a query reads, except those that it defines itself; raises `NotASelect` for commands.

    >>> find_table_names("WITH t AS (SELECT k FROM t) SELECT * FROM t JOIN U USING (k)")
    TableNames(names=('t', 'U'), is_certain=True)
    >>> find_table_names("SELECT window.start FROM t GROUP BY window(ts, '1 hour')")
    TableNames(names=('t',), is_certain=False)
    >>> find_table_names("SELECT 1 FROM IDENTIFIER('t') JOIN range(5)")
    TableNames(names=('t',), is_certain=True)
    >>> find_table_names("SELECT IDENTIFIER('id') FROM t, IDENTIFIER('u')")
    TableNames(names=('t', 'u'), is_certain=True)
    """
    try:
        tokens = list(VERBATIM.tokenize(query))
    except SqlglotError as error:
        raise NotASelect(f"it cannot be read as SQL: {error}") from error
    if not tokens or tokens[0].text.upper() not in _FIRST:
        first_word = tokens[0].text.upper() if tokens else "nothing"
        raise NotASelect(f"a query begins with SELECT, WITH, FROM, VALUES or TABLE, not with {first_word}")
    try:
        tree = parse_query(query)
    except (SqlglotError, RecursionError):
        tree = None
    if isinstance(tree, exp.Query):
        tables = sorted(tree.find_all(exp.Table), key=lambda table: int(table.this.meta.get("start", 0)))
        named = [(name, table) for table in tables if (name := _find_table_name(table)) is not None]
        # A definition that reads its own name refers to the table outside.
        free = [name for name, table in named if name.lower() not in _find_visible_ctes(table)]
        return TableNames(_dedupe_names(free), is_certain=True)
    return TableNames(_dedupe_names([*_guess_tables(tokens)]), is_certain=False)


def _dedupe_names(names: list[str]) -> tuple[str, ...]:
    return tuple({name.lower(): name for name in reversed(names)}.values())[::-1]


def _find_table_name(table: exp.Table) -> str | None:
    """The name of a table, written plainly or as IDENTIFIER('name'); None for table functions and hints."""
    match table.this:
        case exp.Identifier() if not table.find_ancestor(exp.Hint):
            return ".".join(part.name for part in table.parts)
        case exp.Anonymous(this=str(function), expressions=[exp.Literal(is_string=True) as name]) if (
            function.upper() == "IDENTIFIER"
        ):
            return str(name.name)
        case _:
            return None


def _find_visible_ctes(table: exp.Table) -> set[str]:
    """The names that the enclosing WITH clauses define for a table."""
    visible: set[str] = set()
    node: exp.Expr = table
    while node.parent is not None:
        child, node = node, node.parent
        with_ = node.args.get("with_")
        if with_ is None and isinstance(node, exp.With):
            before = node.expressions
            if not node.args.get("recursive"):
                before = before[: next(i for i, definition in enumerate(before) if definition is child)]
            visible |= {definition.alias.lower() for definition in before}
        elif with_ is not None and with_ is not child:
            visible |= {definition.alias.lower() for definition in with_.expressions}
    return visible


def _guess_tables(tokens: list[Token]) -> Iterator[str]:
    """Names in table positions: after FROM, JOIN, TABLE and commas. A name that WITH defines is omitted."""
    texts = [token.text.upper() for token in tokens]
    named = (i for i, token in enumerate(tokens) if token.token_type in _NAMES)
    defined = {texts[i] for i in named if texts[i + 1 : i + 3] == ["AS", "("]}
    for i in range(1, len(tokens)):
        is_call = texts[i + 1 : i + 2] == ["("]
        if texts[i - 1] not in _BEFORE_TABLES:
            continue
        if is_call and texts[i] == "IDENTIFIER":
            yield from (token.text for token in tokens[i + 2 : i + 3] if token.token_type is TokenType.STRING)
        elif tokens[i].token_type in _NAMES and not is_call and texts[i] not in defined:
            yield tokens[i].text
