"""Spark SQL as text: normalisation of queries, and detection of nondeterministic ones."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate

from sqlglot import Token, TokenType, exp, parse_one, tokenize
from sqlglot.errors import SqlglotError

_NAMES = frozenset({TokenType.VAR, TokenType.IDENTIFIER, TokenType.STRING})

NONDETERMINISTIC_FUNCTIONS = frozenset(
    {
        *("RAND", "RANDOM", "RANDN", "RANDSTR", "UNIFORM", "UUID", "SHUFFLE", "MONOTONICALLY_INCREASING_ID"),
        *("CURRENT_TIMESTAMP", "CURRENT_DATE", "CURRENT_TIME", "CURDATE", "NOW", "LOCALTIMESTAMP", "UNIX_TIMESTAMP"),
        *("SPARK_PARTITION_ID", "INPUT_FILE_NAME", "TABLESAMPLE"),
    }
)
"""Nondeterministic functions; some of them are deterministic with certain arguments, such as a seed."""

_T = TokenType
_OPERATORS = frozenset(
    {
        *(_T.AND, _T.OR, _T.NOT, _T.XOR, _T.EXCLAMATION, _T.EQ, _T.NEQ, _T.NULLSAFE_EQ, _T.LT, _T.LTE, _T.GT, _T.GTE),
        *(_T.PLUS, _T.DASH, _T.STAR, _T.SLASH, _T.DIV, _T.MOD, _T.DPIPE, _T.PIPE, _T.AMP, _T.CARET, _T.TILDE),
        *(_T.LIKE, _T.ILIKE, _T.RLIKE, _T.IN, _T.IS, _T.BETWEEN, _T.WHEN, _T.DCOLON, _T.ARROW),
        *(_T.SELECT, _T.JOIN, _T.UNION, _T.EXCEPT, _T.INTERSECT),
    }
)
_DEPTH_STEPS = {_T.L_PAREN: 1, _T.L_BRACKET: 1, _T.R_PAREN: -1, _T.R_BRACKET: -1}


@dataclass(frozen=True, slots=True)
class QueryLimits:
    """Bounds on a query that arrives in a request: analysing it takes time that grows faster than its length."""

    operators: int = 500
    tokens: int = 20_000
    depth: int = 100  # of parentheses


QUERY_LIMITS = QueryLimits()


def find_excess(query: str, limits: QueryLimits = QUERY_LIMITS) -> str | None:
    """Which limit a query exceeds, found without parsing it; None if it exceeds none.

    >>> find_excess("SELECT 1 FROM t WHERE " + " OR ".join(["x = 1"] * 8000))
    'it has 32004 tokens; expected at most 20000: split it into several tables'
    >>> find_excess("SELECT 1 FROM t WHERE x = 1") is None
    True
    """
    tokens = _tokenize_query(query) or ()
    sizes = {
        "tokens": (len(tokens), limits.tokens),
        "operators": (sum(t.token_type in _OPERATORS for t in tokens), limits.operators),
        "levels of parentheses": (_measure_depth(tokens), limits.depth),
    }
    name = next((name for name, (size, limit) in sizes.items() if size > limit), None)
    if name is None:
        return None
    return f"it has {sizes[name][0]} {name}; expected at most {sizes[name][1]}: split it into several tables"


_STARTS = ("SELECT", "WITH", "FROM", "TABLE", "VALUES", "MAP", "REDUCE")


def find_syntax_error(query: str) -> str | None:
    """Why a text is certainly no query; None if Spark may accept it, which only Spark knows.

    >>> find_syntax_error("DELETE FROM t")
    'expected a query, which begins with SELECT, WITH, FROM, TABLE, VALUES, MAP or REDUCE'
    >>> find_syntax_error("SELECT (x FROM t")
    'expected a query, but its parentheses are not balanced'
    """
    tokens = _tokenize_query(query)
    if tokens is None:
        return None
    first = next((t for t in tokens if t.token_type is not _T.L_PAREN), None)
    if first is None or first.text.upper() not in _STARTS:
        return f"expected a query, which begins with {', '.join(_STARTS[:-1])} or {_STARTS[-1]}"
    if any(t.token_type is _T.SEMICOLON for t in tokens[:-1]):
        return "expected one query, found several statements"
    depths = [*accumulate(_DEPTH_STEPS.get(t.token_type, 0) for t in tokens)]
    return "expected a query, but its parentheses are not balanced" if depths[-1] or min(depths) < 0 else None


def _measure_depth(tokens: Iterable[Token]) -> int:
    return max(accumulate((_DEPTH_STEPS.get(t.token_type, 0) for t in tokens), initial=0))


def normalise_query(query: str) -> str:
    """The query without comments, and with spacing and the case of keywords and functions made uniform.

    Names and strings are unchanged: the case of a column's name is part of the result.

    >>> normalise_query("select  count( x ) as N -- all of them\\nfrom t")
    'SELECT COUNT ( x ) AS N FROM t'
    """
    tokens = _tokenize_query(query)
    return " ".join(query.split()) if tokens is None else "".join(_format_tokens(query, tokens)).lstrip()


def is_nondeterministic(query: str) -> bool:
    """Whether the query uses a nondeterministic function.

    >>> is_nondeterministic("SELECT rand() FROM t"), is_nondeterministic("SELECT 'rand()' FROM t")
    (True, False)
    """
    return any(
        t.text.upper() in NONDETERMINISTIC_FUNCTIONS
        for t in _tokenize_query(query) or ()
        if t.token_type is not TokenType.STRING
    )


def can_rename_table(query: str, name: str) -> bool:
    """Whether the query uses the name only for a table, so that renaming the table leaves the result unchanged.

    A table under another alias, a column, a CTE or a field of the name might mean something else.

    >>> can_rename_table("SELECT t.x FROM t", "t"), can_rename_table("SELECT t FROM t", "t")
    (True, False)
    """
    try:
        tree = parse_one(query, dialect="spark")
    except SqlglotError:
        return False
    identifiers = [i for i in tree.find_all(exp.Identifier) if i.name.lower() == name.lower()]
    tokens = [t for t in _tokenize_query(query) or () if _is_name(t, name)]
    return len(identifiers) == len(tokens) and all(_is_table(i) or _is_qualifier(i) for i in identifiers)


def rename_tables(query: str, names: Mapping[str, str]) -> str:
    """The query with every use of these names replaced.

    >>> rename_tables("SELECT `T`.x FROM t", {"t": "u"})
    'SELECT u.x FROM u'
    """
    replacements = {name.lower(): new_name for name, new_name in names.items()}
    tokens = [t for t in _tokenize_query(query) or () if any(_is_name(t, name) for name in names)]
    for token in reversed(tokens):
        query = f"{query[: token.start]}{replacements[token.text.lower()]}{query[token.end + 1 :]}"
    return query


def _is_name(token: Token, name: str) -> bool:
    return token.token_type is not TokenType.STRING and token.text.lower() == name.lower()


def _is_table(name: exp.Expression) -> bool:
    """Whether it is a table without database and alias."""
    table = name.parent
    return isinstance(table, exp.Table) and table.this is name and not (table.args.get("db") or table.alias)


def _is_qualifier(name: exp.Expression) -> bool:
    """Whether it qualifies a column of a table that the same SELECT reads."""
    column = name.parent
    if not isinstance(column, exp.Column) or column.args.get("table") is not name or column.args.get("db"):
        return False
    select = column.find_ancestor(exp.Select)
    clauses = {} if select is None else select.args
    parts = (clauses.get("from_") or clauses.get("from"), *clauses.get("joins", ()))
    sources = [part.this for part in parts if part is not None]
    return any(isinstance(t, exp.Table) and _is_table(t.this) and t.name.lower() == name.name.lower() for t in sources)


def _tokenize_query(query: str) -> list[Token] | None:
    try:
        return tokenize(query, dialect="spark")
    except SqlglotError:
        return None


def _format_tokens(query: str, tokens: list[Token]) -> Iterator[str]:
    """The tokens with uniform spacing. Adjacent strings stay joined: `'a''b'` is one string with a quote inside."""
    end = -1
    for i, token in enumerate(tokens):
        raw = query[token.start : token.end + 1]
        is_call = i + 1 < len(tokens) and tokens[i + 1].token_type is TokenType.L_PAREN
        is_joined = token.token_type is TokenType.STRING and i > 0 and token.start == end + 1 and raw[0] == query[end]
        yield "" if is_joined else " "
        yield raw if token.token_type in _NAMES and not (is_call and token.token_type is TokenType.VAR) else raw.upper()
        end = token.end
