"""Reading a query: parse it, qualify every column, and reject constructs that cannot be incremental."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.eliminate_ctes import eliminate_ctes
from sqlglot.optimizer.qualify import qualify

from tidemill.algebra.dialect import VERBATIM, parse_query, to_sql
from tidemill.algebra.expression import Expression, expression_from_tree
from tidemill.algebra.sql.functions import AGGREGATE
from tidemill.algebra.sql.understood import describe_parse_error, find_function_name, find_reasons


class NotIncremental(Exception):
    """A query that can only be run in batch; the message is the reason."""


@dataclass(frozen=True, slots=True)
class SourceTable:
    """The known properties of a channel that a query reads."""

    columns: Mapping[str, str]  # name to type; "" if the type is not known
    keys: tuple[str, ...] = ()  # columns that are unique together
    append_only: bool = False  # rows are only added, never removed


def qualify_query(query: str, sources: Mapping[str, SourceTable]) -> exp.Query:
    """The query with every column qualified by its table; raises `NotIncremental` if that is not possible."""
    try:
        tree = parse_query(query)
    except SqlglotError as error:
        raise NotIncremental(describe_parse_error(query, error)) from error
    if not isinstance(tree, exp.Query):
        raise NotIncremental("only a SELECT can be incremental")
    _check_supported(tree)
    schema: dict[str, object] = {name: {c.lower(): "string" for c in s.columns} for name, s in sources.items()}
    _select_using_columns(tree)
    try:
        qualified = eliminate_ctes(qualify(tree, schema=schema, dialect=VERBATIM, quote_identifiers=False))
    except SqlglotError as error:
        raise NotIncremental(_describe_unresolved(error)) from error
    assert isinstance(qualified, exp.Query)
    if any(not isinstance(star.parent, exp.Count) for star in qualified.find_all(exp.Star)):
        raise NotIncremental("the fields of a struct by .* are only supported in batch")
    _restore_using_columns(qualified)
    return _flatten_columns(qualified)


def _describe_unresolved(error: SqlglotError) -> str:
    """Name the column if sqlglot's message does; its other messages contain full queries."""
    column = re.match(r"Column '(.+?)' could not be resolved", str(error))
    return f"its column {column[1]} could not be resolved here" if column else "its columns could not be resolved here"


_USING_PREFIX = "_using "


def _select_using_columns(tree: exp.Query) -> None:
    """Select the USING columns of HAVING and QUALIFY, because sqlglot qualifies such columns only where they are
    selected.
    """
    for select in tree.find_all(exp.Select):
        joined = {c.name.lower() for join in select.args.get("joins") or () for c in join.args.get("using") or ()}
        missing = {c.name.lower() for c in _find_unqualified_columns(select)} & joined - {
            name.lower() for name in select.named_selects
        }
        for name in sorted(missing):
            select.select(exp.alias_(exp.column(name), f"{_USING_PREFIX}{name}", quoted=True), copy=False)


def _restore_using_columns(tree: exp.Query) -> None:
    for select in tree.find_all(exp.Select):
        added = {s.alias: s for s in select.selects if s.alias.startswith(_USING_PREFIX)}
        for column in _find_unqualified_columns(select):
            if (selected := added.get(_USING_PREFIX + column.name)) is not None:
                column.replace(selected.this.copy())
        for selected in added.values():
            selected.pop()


def _find_unqualified_columns(select: exp.Select) -> list[exp.Column]:
    """Unqualified columns in HAVING and QUALIFY, excluding those of their sub-queries."""
    clauses = [clause for name in ("having", "qualify") if (clause := select.args.get(name)) is not None]
    columns = (column for clause in clauses for column in clause.find_all(exp.Column))
    return [c for c in columns if not c.table and c.find_ancestor(exp.Select) is select]


def _check_supported(tree: exp.Expr) -> None:
    for reason in (*find_reasons(tree), *_find_merged_keys(tree)):
        raise NotIncremental(reason)


def _find_merged_keys(tree: exp.Expr) -> Iterator[str]:
    """sqlglot takes the key that USING merges from one side; further joins use the merged key."""
    for select in tree.find_all(exp.Select):
        joins = select.args.get("joins") or []
        outer = any((join.side or "").upper() in ("RIGHT", "FULL") for join in joins)
        if len(joins) > 1 and outer and any(join.args.get("using") for join in joins):
            yield "USING beside a RIGHT or FULL join and a further join is only supported in batch"


def is_aggregate(node: exp.Expr) -> bool:
    if isinstance(node, exp.Anonymous):
        return find_function_name(node) in AGGREGATE
    return isinstance(node, exp.AggFunc)


def _flatten_columns(tree: exp.Query) -> exp.Query:
    """Each column as one name, `table.column`; fields of structs as fields of a parenthesised column."""
    for node in list(tree.find_all(exp.Column)):
        if node.table:
            name = f"{node.table}.{node.name}"
            flat = exp.Column(this=exp.Identifier(this=name, quoted=True))
            is_struct = isinstance(node.parent, exp.Dot) and node.arg_key == "this"
            node.replace(exp.Paren(this=flat) if is_struct else flat)
    for call in list(tree.find_all(exp.Anonymous)):
        if find_function_name(call) == "struct":
            call.replace(_build_named_struct(call))
    return tree


def _build_named_struct(call: exp.Anonymous) -> exp.Anonymous:
    """Fields have the names that the columns had before they were qualified."""
    named: list[exp.Expr] = []
    for position, item in enumerate(call.expressions, 1):
        value = item.this if isinstance(item, exp.Alias) else item
        name = item.alias or (item.name.rpartition(".")[2] if isinstance(item, exp.Column) else f"col{position}")
        named += [exp.Literal.string(name), value.copy()]
    return exp.Anonymous(this="named_struct", expressions=named)


def to_operator_expression(tree: exp.Expr) -> Expression:
    """The expression in the form that operators use."""
    return expression_from_tree(check_no_subqueries(tree))


def check_no_subqueries(tree: exp.Expr) -> exp.Expr:
    """The same tree; raises if it has sub-queries, because operators have joins instead."""
    if tree.find(exp.Query):
        raise NotIncremental(f"the sub-query in {to_sql(tree)} is only supported in batch")
    return tree


def split_conjuncts(condition: exp.Expr | None) -> list[exp.Expr]:
    """The conjuncts of a condition; conjuncts that all branches of an OR share are extracted from it."""
    if condition is None:
        return []
    condition = condition.unnest()
    if isinstance(condition, exp.And):
        return split_conjuncts(condition.this) + split_conjuncts(condition.expression)
    if isinstance(condition, exp.Or):
        return _extract_common(condition)
    return [condition]


def _extract_common(condition: exp.Or) -> list[exp.Expr]:
    branches = [{to_sql(c): c for c in split_conjuncts(b)} for b in _split_branches(condition)]
    shared = [text for text in branches[0] if all(text in b for b in branches)]
    return [*(branches[0][text] for text in shared), condition]


def _split_branches(condition: exp.Expr) -> list[exp.Expr]:
    condition = condition.unnest()
    if isinstance(condition, exp.Or):
        return _split_branches(condition.this) + _split_branches(condition.expression)
    return [condition]
