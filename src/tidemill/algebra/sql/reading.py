"""Reading a query: parsed, every column qualified, and everything that cannot be incremental named."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.eliminate_ctes import eliminate_ctes
from sqlglot.optimizer.qualify import qualify

from tidemill.algebra.dialect import VERBATIM, parse, text_of
from tidemill.algebra.expression import Expression, from_tree


class NotIncremental(Exception):
    """A query that can only be run in batch, and why."""


class NotAQuery(Exception):
    """A text that Spark would not accept over these channels, and why."""


@dataclass(frozen=True, slots=True)
class Source:
    """What is known of a channel that a query reads."""

    columns: Mapping[str, str]  # name to type; "" if the type is not known
    keys: tuple[str, ...] = ()  # columns of which no two rows have the same values
    append: bool = False  # rows are only ever added


AGGREGATES = frozenset(
    {
        "any", "any_value", "approx_count_distinct", "approx_percentile", "array_agg", "bit_and", "bit_or",
        "bit_xor", "bool_and", "bool_or", "collect_list", "collect_set", "corr", "count_min_sketch", "covar_pop",
        "covar_samp", "every", "first", "first_value", "histogram_numeric", "kurtosis", "last", "last_value",
        "listagg", "max_by", "mean", "median", "min_by", "mode", "percentile", "percentile_approx",
        "percentile_cont", "percentile_disc", "product", "regr_avgx", "regr_avgy", "regr_count", "regr_intercept",
        "regr_r2", "regr_slope", "regr_sxx", "regr_sxy", "regr_syy", "skewness", "some", "std", "string_agg",
        "sum_distinct", "try_avg", "try_sum", "hll_sketch_agg", "bitmap_construct_agg", "bitmap_or_agg", "grouping",
        "grouping_id",
    }
)  # fmt: skip
"""Aggregate functions of Spark that are read as a name and arguments."""

_CHANGING = frozenset(
    {
        "rand", "random", "randn", "randstr", "uniform", "uuid", "shuffle", "monotonically_increasing_id",
        "spark_partition_id", "input_file_name", "input_file_block_start", "input_file_block_length", "now",
        "current_timestamp", "current_date", "current_time", "localtimestamp", "curdate", "unix_timestamp",
        "current_user", "user", "session_user", "current_catalog", "current_database", "current_schema",
        "current_timezone", "version",
    }
)  # fmt: skip
"""Functions whose value does not depend on their arguments alone."""


def read(query: str, sources: Mapping[str, Source]) -> exp.Query:
    """The query with every column qualified by its table; raises if Spark would not take it."""
    try:
        tree = parse(query)
    except SqlglotError as error:
        raise NotAQuery(f"it is not Spark SQL: {error}") from error
    if not isinstance(tree, exp.Query):
        raise NotAQuery(f"it must be a SELECT, not {tree.key.upper()}")
    _refuse(tree)
    schema: dict[str, object] = {name: {c.lower(): "string" for c in s.columns} for name, s in sources.items()}
    _lend(tree)
    try:
        made = eliminate_ctes(qualify(tree, schema=schema, dialect=VERBATIM, quote_identifiers=False))
    except SqlglotError as error:
        raise NotIncremental(f"its columns could not be told apart: {str(error).splitlines()[0]}") from error
    assert isinstance(made, exp.Query)
    _give_back(made)
    return _flattened(made)


_LENT = "_using "


def _lend(tree: exp.Query) -> None:
    """Select what HAVING and QUALIFY take from USING: sqlglot qualifies such columns only where they are selected."""
    for select in tree.find_all(exp.Select):
        joined = {c.name.lower() for join in select.args.get("joins") or () for c in join.args.get("using") or ()}
        wanted = {c.name.lower() for c in _loose(select)} & joined - {name.lower() for name in select.named_selects}
        for name in sorted(wanted):
            select.select(exp.alias_(exp.column(name), f"{_LENT}{name}", quoted=True), copy=False)


def _give_back(tree: exp.Query) -> None:
    for select in tree.find_all(exp.Select):
        lent = {s.alias: s for s in select.selects if s.alias.startswith(_LENT)}
        for column in _loose(select):
            if (found := lent.get(_LENT + column.name)) is not None:
                column.replace(found.this.copy())
        for found in lent.values():
            found.pop()


def _loose(select: exp.Select) -> list[exp.Column]:
    """Columns of no table in HAVING and QUALIFY, those of their sub-queries aside."""
    clauses = [clause for name in ("having", "qualify") if (clause := select.args.get(name)) is not None]
    found = (column for clause in clauses for column in clause.find_all(exp.Column))
    return [c for c in found if not c.table and c.find_ancestor(exp.Select) is select]


def _refuse(tree: exp.Expr) -> None:
    for reason in _reasons(tree):
        raise NotIncremental(reason)


def _reasons(tree: exp.Expr) -> Iterator[str]:
    """Why a query cannot be incremental, as far as single words of it tell."""
    for call in tree.find_all(exp.Func):
        name = function_name(call)
        if name in _CHANGING and not (name == "unix_timestamp" and call.expressions):
            yield f"{name}() gives another value each time"
    for kind, said in _UNKNOWN.items():
        if tree.find(kind):
            yield f"{said} is only known in batch"
    for table in tree.find_all(exp.Table):
        if table.args.get("when") or table.args.get("version"):
            yield "it reads a table at a time of its own"
        if isinstance(table.this, exp.Func):
            yield f"{text_of(table.this)} is not a channel"
    for cte in tree.find_all(exp.With):
        if cte.args.get("recursive"):
            yield "WITH RECURSIVE is only known in batch"


_UNKNOWN: dict[type[exp.Expr], str] = {
    exp.TableSample: "TABLESAMPLE",
    exp.Pivot: "PIVOT",
    exp.MatchRecognize: "MATCH_RECOGNIZE",
    exp.Values: "VALUES",
    exp.Parameter: "a parameter",
    exp.Placeholder: "a parameter",
}


def function_name(call: exp.Expr) -> str:
    if isinstance(call, exp.Anonymous):
        return str(call.this).lower()
    return call.sql_name().lower() if isinstance(call, exp.Func) else ""


def is_aggregate(node: exp.Expr) -> bool:
    if isinstance(node, exp.Anonymous):
        return function_name(node) in AGGREGATES
    return isinstance(node, exp.AggFunc)


def _flattened(tree: exp.Query) -> exp.Query:
    """Each column as one name, `table.column`; fields of structs as fields of a parenthesised column."""
    for node in list(tree.find_all(exp.Column)):
        if node.table:
            name = f"{node.table}.{node.name}"
            flat = exp.Column(this=exp.Identifier(this=name, quoted=True))
            inside = isinstance(node.parent, exp.Dot) and node.arg_key == "this"
            node.replace(exp.Paren(this=flat) if inside else flat)
    for call in list(tree.find_all(exp.Anonymous)):
        if function_name(call) == "struct":
            call.replace(_named_struct(call))
    return tree


def _named_struct(call: exp.Anonymous) -> exp.Anonymous:
    """Fields keep the names that the columns had before they were qualified."""
    named: list[exp.Expr] = []
    for position, item in enumerate(call.expressions, 1):
        value = item.this if isinstance(item, exp.Alias) else item
        name = item.alias or (item.name.rpartition(".")[2] if isinstance(item, exp.Column) else f"col{position}")
        named += [exp.Literal.string(name), value.copy()]
    return exp.Anonymous(this="named_struct", expressions=named)


def expressed(tree: exp.Expr) -> Expression:
    """The expression as operators have it."""
    return from_tree(without_queries(tree))


def without_queries(tree: exp.Expr) -> exp.Expr:
    """The same, if it has no sub-queries: operators know none, only the joins that are made of them."""
    if tree.find(exp.Query):
        raise NotIncremental(f"the sub-query in {text_of(tree)} is only known in batch")
    return tree


def conjuncts(condition: exp.Expr | None) -> list[exp.Expr]:
    """What must all hold; what all branches of an OR have in common is drawn out of it."""
    if condition is None:
        return []
    condition = condition.unnest()
    if isinstance(condition, exp.And):
        return conjuncts(condition.this) + conjuncts(condition.expression)
    if isinstance(condition, exp.Or):
        return _common(condition)
    return [condition]


def _common(condition: exp.Or) -> list[exp.Expr]:
    branches = [{text_of(c): c for c in conjuncts(b)} for b in _branches(condition)]
    shared = [text for text in branches[0] if all(text in b for b in branches)]
    return [*(branches[0][text] for text in shared), condition]


def _branches(condition: exp.Expr) -> list[exp.Expr]:
    condition = condition.unnest()
    if isinstance(condition, exp.Or):
        return _branches(condition.this) + _branches(condition.expression)
    return [condition]
