"""Reading a query: its text becomes a tree that the translation supports, in which each column is a single name.

`TREE_PASSES` make it so, in this order. Constructs are checked as the user wrote them. `qualify_columns` is sqlglot's;
the passes before and after it let it resolve every column; the last passes need resolved columns.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import reduce

from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.eliminate_ctes import eliminate_ctes
from sqlglot.optimizer.qualify import qualify

from tidemill.algebra.dialect import VERBATIM, parse_query, to_sql
from tidemill.algebra.expression import Expression, expression_from_tree
from tidemill.algebra.sql.understood import describe_parse_error, find_function_name, find_reasons


class NotIncremental(Exception):
    """A query that can only be run in batch; the message is the reason."""


Tables = Mapping[str, Iterable[str]]
"""The columns of the tables that a query reads, by their names in lower case."""


def read_query(query: str, tables: Tables) -> exp.Query:
    """The tree of a query; raises `NotIncremental` if it cannot be incremental."""
    try:
        tree = parse_query(query)
    except SqlglotError as error:
        raise NotIncremental(describe_parse_error(query, error)) from error
    if not isinstance(tree, exp.Query):
        raise NotIncremental("only a SELECT can be incremental")
    return reduce(lambda rewritten, rewrite: rewrite(rewritten, tables), TREE_PASSES, tree)


def check_constructs(tree: exp.Query, _: Tables) -> exp.Query:
    """The same tree; raises for a construct that has no translation."""
    for reason in (*find_reasons(tree), *_find_merged_keys(tree)):
        raise NotIncremental(reason)
    return tree


def _find_merged_keys(tree: exp.Expr) -> Iterator[str]:
    """sqlglot takes the key that USING merges from one side; further joins use the merged key."""
    for select in tree.find_all(exp.Select):
        joins = select.args.get("joins") or []
        outer = any((join.side or "").upper() in ("RIGHT", "FULL") for join in joins)
        if len(joins) > 1 and outer and any(join.args.get("using") for join in joins):
            yield "USING beside a RIGHT or FULL join and a further join is only supported in batch"


_USING_PREFIX = "_using "


def select_using_columns(tree: exp.Query, _: Tables) -> exp.Query:
    """The USING columns of HAVING and QUALIFY are selected, because sqlglot qualifies such columns only there."""
    for select in tree.find_all(exp.Select):
        joined = {c.name.lower() for join in select.args.get("joins") or () for c in join.args.get("using") or ()}
        used = {c.name.lower() for c in _find_unqualified_columns(select)}
        for name in sorted(used & joined - {name.lower() for name in select.named_selects}):
            select.select(exp.alias_(exp.column(name), f"{_USING_PREFIX}{name}", quoted=True), copy=False)
    return tree


def qualify_columns(tree: exp.Query, tables: Tables) -> exp.Query:
    """Every column is qualified by its table; raises if a column cannot be resolved."""
    schema: dict[str, object] = {name: {c.lower(): "string" for c in columns} for name, columns in tables.items()}
    try:
        qualified = eliminate_ctes(qualify(tree, schema=schema, dialect=VERBATIM, quote_identifiers=False))
    except SqlglotError as error:  # its other messages contain full queries
        column = re.match(r"Column '(.+?)' could not be resolved", str(error))
        subject = f"column {column[1]}" if column else "columns"
        raise NotIncremental(f"its {subject} could not be resolved here") from error
    assert isinstance(qualified, exp.Query)
    if any(not isinstance(star.parent, exp.Count) for star in qualified.find_all(exp.Star)):
        raise NotIncremental("the fields of a struct by .* are only supported in batch")
    return qualified


def restore_using_columns(tree: exp.Query, _: Tables) -> exp.Query:
    """HAVING and QUALIFY get the qualified USING columns, which are no longer selected."""
    for select in tree.find_all(exp.Select):
        added = {s.alias: s for s in select.selects if s.alias.startswith(_USING_PREFIX)}
        for column in _find_unqualified_columns(select):
            if (selected := added.get(_USING_PREFIX + column.name)) is not None:
                column.replace(selected.this.copy())
        for selected in added.values():
            selected.pop()
    return tree


def _find_unqualified_columns(select: exp.Select) -> list[exp.Column]:
    """Unqualified columns in HAVING and QUALIFY, excluding those of their sub-queries."""
    clauses = [clause for name in ("having", "qualify") if (clause := select.args.get(name)) is not None]
    columns = (column for clause in clauses for column in clause.find_all(exp.Column))
    return [c for c in columns if not c.table and c.find_ancestor(exp.Select) is select]


def inline_named_windows(tree: exp.Query, _: Tables) -> exp.Query:
    """OVER w becomes the definition of w in the WINDOW clause."""
    for select in tree.find_all(exp.Select):
        named = {w.name: w for w in select.args.get("windows") or []}
        for window in select.find_all(exp.Window) if named else ():
            alias = window.args.get("alias") if window.args.get("over") else None
            spec = None if alias is None else named.get(str(alias.name))
            if spec is not None:
                window.set("alias", None)
                for part in ("partition_by", "order", "spec"):
                    window.set(part, spec.copy().args.get(part))
    return tree


def name_struct_fields(tree: exp.Query, _: Tables) -> exp.Query:
    """struct(a, b) becomes named_struct('a', a, 'b', b): columns get other names, and fields keep theirs."""
    for call in list(tree.find_all(exp.Anonymous)):
        if find_function_name(call) == "struct":
            named: list[exp.Expr] = []
            for position, item in enumerate(call.expressions, 1):
                name = item.alias or (item.name if isinstance(item, exp.Column) else f"col{position}")
                named += [exp.Literal.string(name), item.unalias()]
            call.replace(exp.Anonymous(this="named_struct", expressions=named))
    return tree


def flatten_columns(tree: exp.Query, _: Tables) -> exp.Query:
    """Each column becomes one name, `table.column`; fields of structs are fields of a parenthesised column."""
    for node in list(tree.find_all(exp.Column)):
        if node.table:
            flat = exp.Column(this=exp.Identifier(this=f"{node.table}.{node.name}", quoted=True))
            is_struct = isinstance(node.parent, exp.Dot) and node.arg_key == "this"
            node.replace(exp.Paren(this=flat) if is_struct else flat)
    return tree


TREE_PASSES: tuple[Callable[[exp.Query, Tables], exp.Query], ...] = (
    check_constructs,
    select_using_columns,
    qualify_columns,
    restore_using_columns,
    inline_named_windows,
    name_struct_fields,
    flatten_columns,
)


def to_operator_expression(tree: exp.Expr) -> Expression:
    """The expression in the form that operators use; raises if it has sub-queries, because operators have joins."""
    if tree.find(exp.Query):
        raise NotIncremental(f"the sub-query in {to_sql(tree)} is only supported in batch")
    return expression_from_tree(tree)


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
