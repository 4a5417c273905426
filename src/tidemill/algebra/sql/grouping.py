"""Aggregation: calls of aggregate functions over groups, as operators.

Each set of DISTINCT arguments is aggregated over its distinct rows, separately from the rest; the parts, which have the
same groups, are joined. An aggregate without GROUP BY is a group by a constant, joined to a single row that exists even
if there are no rows. GROUPING SETS, ROLLUP and CUBE are the union of their sets' groups.
"""

from collections.abc import Sequence
from itertools import chain, product

from sqlglot import exp

from tidemill.algebra import operators as ops
from tidemill.algebra.dialect import to_sql
from tidemill.algebra.expression import Expression, build_column, quote_name, to_expression
from tidemill.algebra.sql.functions import AGGREGATE, ARRAY_IF_EMPTY, NULL_IF_EMPTY, ZERO_IF_EMPTY
from tidemill.algebra.sql.reading import NotIncremental, to_operator_expression
from tidemill.algebra.sql.relation import NameGenerator, Trees, TypedRelation, build_column_tree
from tidemill.algebra.sql.understood import find_function_name
from tidemill.algebra.typing import FLOATS, INTEGERS, infer_type, is_groupable

Grouped = tuple[TypedRelation, dict[str, str]]
"""The rows of groups, and their columns by the texts of keys and calls."""


def find_aggregate_calls(trees: Sequence[exp.Expr]) -> dict[str, exp.Expr]:
    """The distinct outermost aggregate calls in some expressions, by their text; windows are not aggregates."""
    calls: dict[str, exp.Expr] = {}
    for tree in trees:
        for node in tree.walk(prune=lambda n: isinstance(n, exp.Window | exp.Query) or _is_aggregate_call(n)):
            if _is_aggregate_call(node) and not isinstance(node.parent, exp.Window):
                calls.setdefault(to_sql(node), node)
    for tree in trees:
        for window in tree.find_all(exp.Window):
            arguments = window.this.iter_expressions() if isinstance(window.this, exp.Func) else ()
            order = window.args.get("order")
            partition = window.args.get("partition_by") or ()
            calls |= find_aggregate_calls([*arguments, *partition, *([order] if order else ())])
    return calls


def _is_aggregate_call(node: exp.Expr) -> bool:
    if isinstance(node, exp.Filter | exp.IgnoreNulls | exp.RespectNulls | exp.WithinGroup):
        return _is_aggregate_call(node.this)
    is_known = isinstance(node, exp.Anonymous) and find_function_name(node) in AGGREGATE
    return is_known or isinstance(node, exp.AggFunc)


def group_rows(relation: TypedRelation, keys: Trees, calls: Trees, names: NameGenerator) -> Grouped:
    """Groups by named key expressions, with a column for each call; returns these column names by the call's text."""
    for name, tree in keys.items():
        if not is_groupable(relation.types.get(name) or infer_type(tree, relation.types)):
            raise NotIncremental(f"{to_sql(tree)} holds a map, and Spark cannot group by maps")
    if not keys:
        return _aggregate_all(relation, calls, names)
    relation = relation.add_columns({n: t for n, t in keys.items() if n not in relation.columns})
    columns = {text: names.generate_name("agg") for text in calls}
    by_distinct: dict[str, dict[str, exp.Expr]] = {}
    for text, call in calls.items():
        by_distinct.setdefault(_format_distinct(call), {})[columns[text]] = call
    parts = [_aggregate_part(relation, tuple(keys), part, names) for part in by_distinct.values()]
    first, *other_parts = parts or [TypedRelation(ops.Aggregation(relation.op, tuple(keys)), relation.types)]
    for part in other_parts:
        first = _join_groups(first, part, tuple(keys), names)
    return first, columns


def _aggregate_all(relation: TypedRelation, calls: Trees, names: NameGenerator) -> Grouped:
    """One row, even for no rows: then each call has its value for empty input."""
    constant = names.generate_name("all")
    grouped, columns = group_rows(relation, {constant: exp.Literal.number(0)}, calls, names)
    single = ops.Join(ops.SingleRow(), grouped.op, ops.JoinKind.LEFT, (("_one", constant),))
    values = {columns[t]: default_if_empty(call, columns[t]) for t, call in calls.items()}
    row = ops.select_columns(single, () if values else ("_one",), values)
    return TypedRelation(row, grouped.types), columns


def default_if_empty(call: exp.Expr, name: str) -> Expression:
    """The column that holds a call's value, with the value for empty input where a join found no group."""
    function = find_function_name(_split_filter(call)[0])
    if function in ZERO_IF_EMPTY:
        return to_expression(f"COALESCE({quote_name(name)}, 0)")
    if function in ARRAY_IF_EMPTY:
        return to_expression(f"COALESCE({quote_name(name)}, ARRAY())")
    if function not in NULL_IF_EMPTY:
        reason = "where there may be no rows, as without GROUP BY, is only supported in batch"
        raise NotIncremental(f"{function}() {reason}")
    return build_column(name)


def _format_distinct(call: exp.Expr) -> str:
    """The set of DISTINCT arguments of a call; "" for a call without DISTINCT."""
    inner, condition = _split_filter(call)
    distinct = inner.find(exp.Distinct)
    if distinct is None or find_function_name(inner) in ("min", "max"):
        return ""
    if find_function_name(inner) not in ("count", "sum", "avg", "collect_set", "mean"):
        raise NotIncremental(f"{to_sql(inner)} is only supported in batch")
    return f"{', '.join(to_sql(e) for e in distinct.expressions)} | {to_sql(condition) if condition else ''}"


def _split_filter(call: exp.Expr) -> tuple[exp.Expr, exp.Expr | None]:
    if isinstance(call, exp.Filter):
        return call.this, call.expression.this
    return call, None


def _aggregate_part(
    relation: TypedRelation, keys: tuple[str, ...], calls: Trees, names: NameGenerator
) -> TypedRelation:
    """The calls over one set of DISTINCT arguments."""
    if _format_distinct(next(iter(calls.values()))):
        relation, calls = _rewrite_distinct(relation, keys, calls, names)
    aggregates = tuple(_build_aggregate(name, call, relation) for name, call in calls.items())
    types = {k: relation.types.get(k, "") for k in keys} | {f.name: _find_result_type(f) for f in aggregates}
    return TypedRelation(ops.Aggregation(relation.op, keys, aggregates), types)


def _rewrite_distinct(
    relation: TypedRelation, keys: tuple[str, ...], calls: Trees, names: NameGenerator
) -> tuple[TypedRelation, dict[str, exp.Expr]]:
    """The distinct rows of keys and arguments, and the calls over them."""
    inner, condition = _split_filter(next(iter(calls.values())))
    distinct = inner.find(exp.Distinct)
    assert distinct is not None
    arguments = {names.generate_name("arg"): _build_case(condition, e) for e in distinct.expressions}
    rows = relation.add_columns(arguments)
    distinct_rows = TypedRelation(ops.select_distinct(ops.select_columns(rows.op, (*keys, *arguments))), rows.types)
    columns = [build_column_tree(n) for n in arguments]
    return distinct_rows, {name: _rebuild_call(_split_filter(call)[0], columns) for name, call in calls.items()}


def _rebuild_call(call: exp.Expr, arguments: list[exp.Column]) -> exp.Expr:
    name = find_function_name(call)
    if name == "count" and len(arguments) > 1:
        not_null = exp.and_(*(exp.Not(this=exp.Is(this=a.copy(), expression=exp.Null())) for a in arguments))
        return exp.Count(this=exp.Case(ifs=[exp.If(this=not_null, true=exp.Literal.number(1))]))
    return exp.Anonymous(this=name, expressions=[a.copy() for a in arguments])


def _build_case(condition: exp.Expr | None, value: exp.Expr) -> exp.Expr:
    """The value where the condition holds, else NULL."""
    if condition is None:
        return value.copy()
    return exp.Case(ifs=[exp.If(this=condition.copy(), true=value.copy())])


def _build_aggregate(name: str, call: exp.Expr, relation: TypedRelation) -> ops.AggregateCall:
    inner, condition = _split_filter(call)
    function = find_function_name(inner)
    arguments = _list_arguments(inner)
    if function not in _PLAIN or len(arguments) > 1:
        columns = tuple(build_column(c.name) for c in call.find_all(exp.Column))
        return ops.AggregateCall(name, function, columns, text=to_operator_expression(call.copy()).text)
    if not arguments:
        if condition is None:
            return ops.AggregateCall(name, "count")
        arguments = [exp.Literal.number(1)]
    values = tuple(to_operator_expression(_build_case(condition, a)) for a in arguments)
    kind = infer_type(arguments[0], relation.types) if len(arguments) == 1 else ""
    return ops.AggregateCall(name, _PLAIN[function], values, kind)


_SAME_NAMES = (
    "count", "count_if", "sum", "avg", "min", "max", "variance", "var_samp", "var_pop", "stddev", "stddev_samp",
    "stddev_pop", "std", "bool_and", "every", "bool_or", "any", "some",
)  # fmt: skip
_PLAIN = {name: name for name in _SAME_NAMES} | {"mean": "avg", "variance_pop": "var_pop"}
"""Aggregates of the values of single rows that ignore NULLs, so that a filter can be expressed as NULL."""


def _list_arguments(call: exp.Expr) -> list[exp.Expr]:
    arguments = call.expressions if isinstance(call, exp.Anonymous) else [call.this, *call.expressions]
    unwrapped = [a.expressions[0] if isinstance(a, exp.Distinct) else a for a in arguments if a is not None]
    return [a for a in unwrapped if not isinstance(a, exp.Star)]


def _find_result_type(aggregate: ops.AggregateCall) -> str:
    if aggregate.function in ("min", "max"):
        return aggregate.type
    is_integer = aggregate.function == "sum" and aggregate.type in INTEGERS
    if is_integer or aggregate.function in ("count", "count_if"):
        return "BIGINT"
    return "DOUBLE" if aggregate.type in FLOATS else ""


def _join_groups(
    left: TypedRelation, right: TypedRelation, keys: tuple[str, ...], names: NameGenerator
) -> TypedRelation:
    """Two aggregates of the same groups, joined."""
    key_names = {k: names.generate_name("same") for k in keys}
    other = ops.rename_columns(right.op, {c: key_names.get(c, c) for c in right.columns})
    op = ops.Join(left.op, other, ops.JoinKind.INNER, tuple(key_names.items()), null_safe=True)
    values = tuple(c for c in right.columns if c not in keys)
    return TypedRelation(ops.select_columns(op, (*left.columns, *values)), {**right.types, **left.types})


def group_by_sets(
    rows: TypedRelation, sets: list[list[exp.Expr]], calls: Trees, grouping: Trees, names: NameGenerator
) -> Grouped:
    """The union of the sets' groups, with NULL for a key that a set omits, and the column of each key and call."""
    all_keys = {to_sql(k): k for grouping_set in sets for k in grouping_set}
    if not all_keys:  # Spark has no group without rows here, unlike for a single set
        raise NotIncremental("several groups of all rows are only supported in batch")
    columns = {t: names.generate_name("key") for t in all_keys}
    columns |= {t: names.generate_name("set") for t in calls} | {t: names.generate_name("in") for t in grouping}
    parts: list[ops.Operator] = []
    for grouping_set in sets:
        present = {to_sql(k) for k in grouping_set}
        nulls = {t: exp.Case(ifs=[exp.If(this=exp.false(), true=k.copy())]) for t, k in all_keys.items()}  # of its type
        keys = {columns[t]: k if t in present else nulls[t] for t, k in all_keys.items()}
        part, call_columns = group_rows(rows, keys, calls, names)
        items: dict[str, Expression | str] = {columns[t]: build_column(call_columns[t]) for t in calls}
        items |= {k: build_column(k) for k in keys}
        items |= {columns[t]: _format_grouping(c, present) for t, c in grouping.items()}
        parts.append(ops.Projection(part.op, ops.name_values(items)))
    return TypedRelation(ops.Union(tuple(parts))), columns


def list_grouping_sets(clause: exp.Group | None) -> list[list[exp.Expr]]:
    """The sets of keys of a GROUP BY: one, unless it has GROUPING SETS, ROLLUP or CUBE."""
    if clause is None:
        return [[]]
    items = [*clause.expressions]
    for extra in ("rollup", "cube", "grouping_sets"):
        for item in clause.args.get(extra) or []:
            if isinstance(item, exp.Rollup | exp.Cube) and not item.expressions:  # GROUP BY a, b WITH ROLLUP
                items = [type(item)(expressions=items)]
            else:
                items.append(item)
    sets = (chain.from_iterable(options) for options in product(*map(_expand_item, items)))
    return [list({to_sql(k): k for k in grouping_set}.values()) for grouping_set in sets]


def _expand_item(item: exp.Expr) -> list[list[exp.Expr]]:
    match item:
        case exp.Rollup():
            parts = [_list_members(e) for e in item.expressions]
            return [[k for p in parts[:n] for k in p] for n in range(len(parts), -1, -1)]
        case exp.Cube():
            subsets = product(*((_list_members(e), list[exp.Expr]()) for e in item.expressions))
            return [list(chain.from_iterable(subset)) for subset in subsets]
        case exp.GroupingSets():
            nested = (exp.Rollup, exp.Cube, exp.GroupingSets)
            options = (_expand_item(e) if isinstance(e, nested) else [_list_members(e)] for e in item.expressions)
            return list(chain.from_iterable(options))
    return [[item]]


def _list_members(item: exp.Expr) -> list[exp.Expr]:
    return list(item.expressions) if isinstance(item, exp.Tuple) else [item.unnest()]


def _format_grouping(call: exp.Expr, present: set[str]) -> str:
    """GROUPING(x): 1 if the set omits x."""
    if find_function_name(call) != "grouping":
        raise NotIncremental("GROUPING_ID is only supported in batch")
    return f"CAST({0 if to_sql(call.expressions[0]) in present else 1} AS TINYINT)"
