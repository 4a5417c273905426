"""Reference semantics of operators on plain Python rows: slow and simple, and the standard that Spark is tested
against.

It supports the expressions that the algebra itself writes and ordinary SQL, not all of Spark's functions.
"""

from __future__ import annotations

import functools
import operator
import statistics
from collections import defaultdict
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

from sqlglot import exp

from tidemill.algebra.dialect import parse_expression
from tidemill.algebra.expression import Expression
from tidemill.algebra.operators import (
    AggregateCall,
    Aggregation,
    BlockScan,
    CustomMerge,
    Explode,
    Filter,
    GroupedMap,
    Join,
    JoinKind,
    Operator,
    Projection,
    Scan,
    ScanMode,
    SingleRow,
    StepReference,
    TopN,
    Union,
    WindowFunction,
)
from tidemill.algebra.reference import to_hashable
from tidemill.model.change import Rows

Row = dict[str, Any]
Sources = Mapping[tuple[str, ScanMode], Rows]
Steps = Mapping[str, Rows]


def evaluate_operator(op: Operator, sources: Sources, steps: Steps | None = None) -> Rows:
    """The operator's rows, given the rows of its scans and of earlier steps."""
    below = functools.partial(evaluate_operator, sources=sources, steps=steps)
    match op:
        case Scan():
            return [{c: r[c] for c in op.columns} for r in sources[op.channel, op.mode]]
        case StepReference():
            return [{c: r[c] for c in op.columns} for r in (steps or {})[op.step]]
        case BlockScan() | CustomMerge():
            raise NotImplementedError("the reference evaluator reads no blocks: use `algebra.reference`")
        case SingleRow():
            return [{"_one": 0}]
        case Projection():
            return [{i.name: evaluate_expression(i.value, r) for i in op.items} for r in below(op.child)]
        case Filter():
            return [r for r in below(op.child) if evaluate_expression(op.condition, r) is True]
        case Explode():
            return [r | output for r in below(op.child) for output in _generate_rows(op, r)]
        case Union():
            return [{c: r[c] for c in op.columns} for child in op.children for r in below(child)]
        case Join():
            return _join_rows(op, below(op.left), below(op.right))
        case Aggregation():
            return [_aggregate_group(op, rows) for rows in _group_rows(below(op.child), op.keys)]
        case WindowFunction():
            output = (row for rows in _group_rows(below(op.child), op.partition) for row in _compute_windows(op, rows))
            return [row for row in output if op.condition is None or evaluate_expression(op.condition, row)]
        case TopN():
            return _sort_rows(below(op.child), op.order)[op.skip : op.skip + op.limit]
        case GroupedMap():
            return [
                {k: rows[0][k] for k in op.keys} | dict(zip(op.outputs, output, strict=True))
                for rows in _group_rows(below(op.child), op.keys)
                for output in op.function(rows)
            ]


def _group_rows(rows: Rows, keys: tuple[str, ...]) -> list[Rows]:
    groups: dict[Any, Rows] = defaultdict(list)
    for row in rows:
        groups[tuple(to_hashable(row[k]) for k in keys)].append(row)
    return list(groups.values())


def _generate_rows(op: Explode, row: Row) -> Rows:
    elements = evaluate_expression(op.generator, row)
    if not elements:
        return [dict.fromkeys(op.outputs)] if op.outer else []
    return [dict(zip(op.outputs, item if isinstance(item, tuple) else (item,), strict=True)) for item in elements]


def _join_rows(op: Join, left: Rows, right: Rows) -> Rows:
    pairs = [(a, b) for a in left for b in right if _is_match(op, a, b)]
    matched_left, matched_right = {id(a) for a, _ in pairs}, {id(b) for _, b in pairs}
    match op.kind:
        case JoinKind.SEMI:
            return [a for a in left if id(a) in matched_left]
        case JoinKind.ANTI:
            return [a for a in left if id(a) not in matched_left]
    rows = [a | b for a, b in pairs]
    if op.kind in (JoinKind.LEFT, JoinKind.FULL):
        rows += [a | dict.fromkeys(op.right.columns) for a in left if id(a) not in matched_left]
    if op.kind in (JoinKind.RIGHT, JoinKind.FULL):
        rows += [dict.fromkeys(op.left.columns) | b for b in right if id(b) not in matched_right]
    return rows


def _is_match(op: Join, a: Row, b: Row) -> bool:
    for left, right in op.keys:
        if to_hashable(a[left]) != to_hashable(b[right]) or (a[left] is None and not op.null_safe):
            return False
    return op.condition is None or evaluate_expression(op.condition, a | b) is True


# -- aggregates and windows --------------------------------------------------------------------------------------


def _aggregate_group(op: Aggregation, rows: Rows) -> Row:
    return {k: rows[0][k] for k in op.keys} | {f.name: _compute_aggregate(f, rows) for f in op.calls}


def _compute_aggregate(call: AggregateCall, rows: Rows) -> Any:
    if call.function == "count" and not call.arguments:
        return len(rows)
    arguments = [tuple(evaluate_expression(a, r) for a in call.arguments) for r in rows]
    if call.function == "max_by":
        return max(
            (values for values in arguments if values[1] is not None), key=lambda values: values[1], default=(None,)
        )[0]
    return _AGGREGATES[call.function]([values[0] for values in arguments if all(v is not None for v in values)])


def _null_if_empty(function: Callable[[list[Any]], Any]) -> Callable[[list[Any]], Any]:
    return lambda values: function(values) if values else None


_AGGREGATES: dict[str, Callable[[list[Any]], Any]] = {
    "count": len,
    "sum": _null_if_empty(lambda values: functools.reduce(operator.add, values)),
    "avg": _null_if_empty(lambda values: float(sum(values)) / len(values)),
    "min": _null_if_empty(min),
    "max": _null_if_empty(max),
    "bool_and": _null_if_empty(all),
    "bool_or": _null_if_empty(any),
    "any_value": _null_if_empty(lambda values: values[0]),
    "median": _null_if_empty(lambda values: float(statistics.median(values))),
}


def _compute_windows(op: WindowFunction, rows: Rows) -> Rows:
    results: list[Row] = [dict(r) for r in rows]
    for item in op.items:
        tree = parse_expression(item.value.text)
        assert isinstance(tree, exp.Window), "the reference supports bare window functions only"
        order = tree.args.get("order")
        by = tuple(Expression(o.sql("spark"), frozenset()) for o in order.expressions) if order else ()
        ordered = _sort_rows(results, by)
        for position, row in enumerate(ordered):
            row[item.name] = _compute_window_value(tree.this, ordered, position, by)
    return results


def _compute_window_value(call: exp.Expr, rows: Rows, position: int, by: tuple[Expression, ...]) -> Any:
    if isinstance(call, exp.Sum | exp.Count):  # running, peers included
        peers = [r for r in rows if not by or _build_order_key(r, by) <= _build_order_key(rows[position], by)]
        if isinstance(call.this, exp.Star):
            return len(peers)
        values = [v for v in (_evaluate_tree(call.this, r) for r in peers) if v is not None]
        return len(values) if isinstance(call, exp.Count) else (sum(values) if values else None)
    name = call.name.lower() or call.key
    before = [r for r in rows if _build_order_key(r, by) < _build_order_key(rows[position], by)]
    ranks = {"row_number": position + 1, "rank": len(before) + 1, "rownumber": position + 1}
    return ranks[name]


def _sort_rows(rows: Rows, order: tuple[Expression, ...]) -> Rows:
    return sorted(rows, key=lambda r: _build_order_key(r, order))


class _DescendingKey:
    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __lt__(self, other: _DescendingKey) -> bool:
        return bool(other.inner < self.inner)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _DescendingKey) and bool(self.inner == other.inner)

    def __le__(self, other: _DescendingKey) -> bool:
        return self < other or self == other


def _build_order_key(row: Row, order: tuple[Expression, ...]) -> tuple[Any, ...]:
    """NULL sorts first ascending and last descending, as in Spark."""
    keys = []
    for item in order:
        text = item.text
        descending = text.upper().endswith(" DESC")
        tree = parse_expression(text[:-5] if descending else text.removesuffix(" ASC"))
        value = _evaluate_tree(tree, row)
        key = (value is not None, 0 if value is None else value)
        keys.append(_DescendingKey(key) if descending else key)
    return tuple(keys)


# -- expressions -------------------------------------------------------------------------------------------------


def evaluate_expression(expression: Expression, row: Row) -> Any:
    return _evaluate_tree(parse_expression(expression.text), row)


def _evaluate_tree(tree: exp.Expr, row: Row) -> Any:
    match tree:
        case exp.Column():
            return row[tree.name] if not tree.table else (row[tree.table] or {}).get(tree.name)
        case exp.Literal():
            return tree.name if tree.is_string else (int(tree.name) if tree.is_int else float(tree.name))
        case exp.Boolean():
            return bool(tree.this)
        case exp.Null():
            return None
        case exp.Paren() | exp.Alias():
            return _evaluate_tree(tree.this, row)
        case exp.And() | exp.Or():
            return _evaluate_logic(tree, row)
        case exp.Not():
            inner = _evaluate_tree(tree.this, row)
            return None if inner is None else not inner
        case exp.Is():
            return (_evaluate_tree(tree.this, row) is None) == isinstance(tree.expression, exp.Null)
        case exp.NullSafeEQ():
            return to_hashable(_evaluate_tree(tree.this, row)) == to_hashable(_evaluate_tree(tree.expression, row))
        case exp.Case():
            return _evaluate_case(tree, row)
        case exp.If():
            branch = tree.args["true"] if _evaluate_tree(tree.this, row) is True else tree.args.get("false")
            return None if branch is None else _evaluate_tree(branch, row)
        case exp.Coalesce():
            arguments = (_evaluate_tree(a, row) for a in [tree.this, *tree.expressions])
            return next((v for v in arguments if v is not None), None)
        case exp.Cast():
            return _cast_value(_evaluate_tree(tree.this, row), tree.to)
        case exp.In():
            return _evaluate_in(tree, row)
        case exp.Explode():
            return _evaluate_tree(tree.this, row)
        case exp.Neg():
            inner = _evaluate_tree(tree.this, row)
            return None if inner is None else -inner
        case exp.Array():
            return [_evaluate_tree(a, row) for a in tree.expressions]
        case exp.Anonymous():
            return _call_function(tree.name.lower(), [_evaluate_tree(a, row) for a in tree.expressions], tree)
        case exp.Binary():
            return _evaluate_binary(tree, row)
    raise NotImplementedError(f"the reference evaluator does not support {tree.sql('spark')}")


def _evaluate_logic(tree: exp.And | exp.Or, row: Row) -> bool | None:
    sides = [_evaluate_tree(tree.this, row), _evaluate_tree(tree.expression, row)]
    decisive = isinstance(tree, exp.Or)
    if decisive in sides:
        return decisive
    return None if None in sides else not decisive


def _evaluate_case(tree: exp.Case, row: Row) -> Any:
    for branch in tree.args["ifs"]:
        if _evaluate_tree(branch.this, row) is True:
            return _evaluate_tree(branch.args["true"], row)
    default = tree.args.get("default")
    return None if default is None else _evaluate_tree(default, row)


def _evaluate_in(tree: exp.In, row: Row) -> bool | None:
    value, options = _evaluate_tree(tree.this, row), [_evaluate_tree(o, row) for o in tree.expressions]
    if value is None:
        return None
    return True if value in options else (None if None in options else False)


def _cast_value(value: Any, to: exp.DataType) -> Any:
    if value is None:
        return None
    match to.this:
        case exp.DType.BIGINT | exp.DType.INT:
            return int(value)
        case exp.DType.DOUBLE:
            return float(value)
        case exp.DType.DECIMAL:
            return Decimal(value)
        case exp.DType.TEXT:
            return str(value)
    return value


def _call_function(name: str, arguments: list[Any], tree: exp.Anonymous) -> Any:
    match name:
        case "least" | "greatest":
            values = [v for v in arguments if v is not None]
            return (min(values) if name == "least" else max(values)) if values else None
        case "array_repeat":
            return [arguments[0]] * max(0, int(arguments[1]))
        case "struct":
            return {a.name: v for a, v in zip(tree.expressions, arguments, strict=True)}
        case "sqrt":
            return None if arguments[0] is None else arguments[0] ** 0.5
    raise NotImplementedError(f"the reference evaluator does not support the function {name}")


_BINARY: dict[type[exp.Expr], Callable[[Any, Any], Any]] = {
    exp.Add: operator.add,
    exp.Sub: operator.sub,
    exp.Mul: operator.mul,
    exp.Div: lambda a, b: a / b,
    exp.Mod: lambda a, b: a % b,
    exp.EQ: lambda a, b: to_hashable(a) == to_hashable(b),
    exp.NEQ: lambda a, b: to_hashable(a) != to_hashable(b),
    exp.LT: operator.lt,
    exp.LTE: operator.le,
    exp.GT: operator.gt,
    exp.GTE: operator.ge,
}


def _evaluate_binary(tree: exp.Binary, row: Row) -> Any:
    left, right = _evaluate_tree(tree.this, row), _evaluate_tree(tree.expression, row)
    return None if left is None or right is None else _BINARY[type(tree)](left, right)
