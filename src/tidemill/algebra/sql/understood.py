"""The part of Spark SQL that the translation supports. Any other construct makes a query batch-only.

sqlglot parses more than the translation supports, and stores it in arguments of its nodes: an argument that is not
checked would be a clause that is silently ignored. So each kind of node has a list of supported arguments.
"""

import re
from collections.abc import Iterable, Iterator

from sqlglot import exp
from sqlglot.errors import ParseError, SqlglotError

from tidemill.algebra.dialect import MisparsedQuery, to_sql
from tidemill.algebra.sql.functions import AGGREGATE, NONDETERMINISTIC, SCALAR, WINDOW_ONLY

_GENERATORS = frozenset({"explode", "explode_outer", "posexplode", "posexplode_outer"})

_ARGUMENTS: dict[type[exp.Expr], frozenset[str]] = {
    exp.Select: frozenset(
        "expressions from_ joins laterals where group having qualify windows distinct order limit offset with_ hint".split()  # noqa: SIM905, E501
    ),
    exp.Group: frozenset({"expressions", "rollup", "cube", "grouping_sets"}),
    exp.From: frozenset({"this"}),
    exp.Join: frozenset({"this", "on", "using", "side", "kind"}),
    exp.Table: frozenset({"this", "alias", "db", "catalog"}),
    exp.TableAlias: frozenset({"this", "columns"}),
    exp.Subquery: frozenset({"this", "alias", "with_", "order", "limit", "offset"}),
    exp.Union: frozenset({"this", "expression", "distinct", "with_", "order", "limit", "offset"}),
    exp.Intersect: frozenset({"this", "expression", "distinct", "with_", "order", "limit", "offset"}),
    exp.Except: frozenset({"this", "expression", "distinct", "with_", "order", "limit", "offset"}),
    exp.Lateral: frozenset({"this", "alias", "outer", "view"}),
    exp.With: frozenset({"expressions"}),
    exp.CTE: frozenset({"this", "alias"}),
    exp.Distinct: frozenset({"expressions"}),
    exp.Window: frozenset({"this", "partition_by", "order", "spec", "alias", "over"}),
    **dict.fromkeys((exp.Limit, exp.Offset), frozenset({"this", "expression"})),
    exp.In: frozenset({"this", "expressions", "query"}),
}

_SYNTAX: tuple[type[exp.Expr], ...] = (
    *(exp.And, exp.Or, exp.Not, exp.Case, exp.If, exp.Cast, exp.TryCast, exp.Coalesce, exp.Nullif),
    *(exp.Extract, exp.Trim, exp.Substring, exp.Overlay, exp.StrPosition, exp.RegexpLike, exp.Exists),
)
"""Row functions with a special syntax."""

_OTHER: dict[type[exp.Expr], str] = {
    exp.TableSample: "TABLESAMPLE",
    exp.Pivot: "PIVOT",
    exp.MatchRecognize: "MATCH_RECOGNIZE",
    exp.Values: "VALUES",
    exp.Parameter: "a parameter",
    exp.Placeholder: "a parameter",
    exp.Any: "ANY",
    exp.All: "ALL",
    exp.Collate: "COLLATE",
    exp.Hint: "",  # affects the plan, not the result
}

_CLAUSES = {
    "all": "GROUP BY ALL",
    "cluster": "CLUSTER BY",
    "distribute": "DISTRIBUTE BY",
    "joins": "a join in parentheses",
    "method": "NATURAL JOIN",
    "pivots": "PIVOT or UNPIVOT",
    "recursive": "WITH RECURSIVE",
    "sample": "TABLESAMPLE",
    "sort": "SORT BY",
}
"""Clauses, by the arguments in which sqlglot stores them."""


_FIXED = r"_(one|qualify|hit|last|is|was|times|rows?|number|n)"
_NUMBERED = r"_(key|agg|sub|on|mark|order|part|win|item|all|same|arg|left|right|time|in|set)\d+(_\w+)?"
_INTERNAL = re.compile(f"{_FIXED}|{_NUMBERED}")
"""Names of columns that the algebra generates."""


def find_internal_name(names: Iterable[str]) -> str | None:
    """A column name that collides with the names that the algebra generates.

    >>> find_internal_name(["id", "_id", "_order1"])
    '_order1'
    """
    return next((name for name in names if _INTERNAL.fullmatch(name.lower())), None)


def find_reasons(tree: exp.Expr) -> Iterator[str]:
    """The reasons why a query's clauses and functions cannot be incremental."""
    for node in tree.walk():
        if construct := _OTHER.get(type(node)):
            yield f"{construct} is only supported in batch"
        if isinstance(node, exp.Func) and not node.find_ancestor(exp.Hint):
            yield from _find_function_reasons(node)
        supported = _ARGUMENTS.get(type(node))
        for arg in () if supported is None else sorted(n for n, v in node.args.items() if v and n not in supported):
            yield f"{_CLAUSES.get(arg) or f'{arg} of {node.key}'.upper().replace('_', ' ')} is only supported in batch"
        if isinstance(node, exp.Table) and isinstance(node.this, exp.Func):
            yield f"the table {to_sql(node.this)} is only supported in batch"


def describe_parse_error(query: str, error: SqlglotError) -> str:
    """Why a query that sqlglot cannot parse cannot be incremental, with the position where the parser stopped.

    >>> from tidemill.algebra.dialect import parse_query
    >>> try:
    ...     parse_query("SELECT k >>> 1 FROM t")
    ... except SqlglotError as error:
    ...     describe_parse_error("SELECT k >>> 1 FROM t", error)
    "only Spark can parse it, because of the syntax near '>' (line 1, column 12)"
    """
    if isinstance(error, MisparsedQuery):
        return str(error)
    if re.search(r"\bwindow\s*\(", query, re.IGNORECASE):  # sqlglot expects a WINDOW clause there
        return "window() is only supported in batch"
    details = error.errors[0] if isinstance(error, ParseError) and error.errors else {}
    if not details.get("highlight"):
        return "only Spark can parse it"
    position = f"line {details['line']}, column {details['col']}"
    return f"only Spark can parse it, because of the syntax near {details['highlight']!r} ({position})"


def _find_function_reasons(call: exp.Func) -> Iterator[str]:
    name = find_function_name(call)
    if name in NONDETERMINISTIC and not (name == "unix_timestamp" and call.expressions):
        yield f"{name}() gives another value each time"
    elif not isinstance(call, _SYNTAX) and not any(name in kind for kind in _KNOWN):
        yield f"{name}() is only supported in batch"


_KNOWN = (SCALAR, AGGREGATE, WINDOW_ONLY, _GENERATORS)


def find_function_name(call: exp.Expr) -> str:
    """Spark's name of a function; sqlglot has different names for some functions."""
    if isinstance(call, exp.Anonymous):
        return call.name.lower()
    if not isinstance(call, exp.Func):
        return ""
    name = call.sql_name().lower()
    return name if any(name in kind for kind in _KNOWN) else to_sql(call).partition("(")[0].strip().lower()
