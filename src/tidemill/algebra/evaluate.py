"""What operators mean, on plain Python rows: slow and obvious on purpose. Spark is held to it.

It knows the expressions that the algebra itself writes and the ordinary ones of SQL; not all of Spark's functions.
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
    Apply,
    At,
    Explode,
    Filter,
    Fold,
    Group,
    Join,
    JoinKind,
    One,
    Operator,
    Project,
    Ref,
    Scan,
    Top,
    Union,
    Window,
)
from tidemill.algebra.reference import freeze
from tidemill.model.change import Rows

Row = dict[str, Any]
Sources = Mapping[tuple[str, At], Rows]
Steps = Mapping[str, Rows]


def evaluate(op: Operator, sources: Sources, steps: Steps | None = None) -> Rows:
    """The operator's rows, given those of its scans and of earlier steps."""
    below = functools.partial(evaluate, sources=sources, steps=steps)
    match op:
        case Scan():
            return [{c: r[c] for c in op.columns} for r in sources[op.channel, op.at]]
        case Ref():
            return [{c: r[c] for c in op.columns} for r in (steps or {})[op.step]]
        case One():
            return [{"_one": 0}]
        case Project():
            return [{i.name: value(i.value, r) for i in op.items} for r in below(op.child)]
        case Filter():
            return [r for r in below(op.child) if value(op.condition, r) is True]
        case Explode():
            return [r | made for r in below(op.child) for made in _generated(op, r)]
        case Union():
            return [{c: r[c] for c in op.columns} for child in op.children for r in below(child)]
        case Join():
            return _joined(op, below(op.left), below(op.right))
        case Group():
            return [_folded(op, rows) for rows in _groups(below(op.child), op.keys)]
        case Window():
            made = (row for rows in _groups(below(op.child), op.partition) for row in _windowed(op, rows))
            return [row for row in made if op.keep is None or value(op.keep, row)]
        case Top():
            return _sorted(below(op.child), op.order)[op.skip : op.skip + op.limit]
        case Apply():
            return [
                {k: rows[0][k] for k in op.keys} | dict(zip(op.outputs, made, strict=True))
                for rows in _groups(below(op.child), op.keys)
                for made in op.function(rows)
            ]


def _groups(rows: Rows, keys: tuple[str, ...]) -> list[Rows]:
    found: dict[Any, Rows] = defaultdict(list)
    for row in rows:
        found[tuple(freeze(row[k]) for k in keys)].append(row)
    return list(found.values())


def _generated(op: Explode, row: Row) -> Rows:
    made = value(op.generator, row)
    if not made:
        return [dict.fromkeys(op.outputs)] if op.outer else []
    return [dict(zip(op.outputs, item if isinstance(item, tuple) else (item,), strict=True)) for item in made]


def _joined(op: Join, left: Rows, right: Rows) -> Rows:
    pairs = [(a, b) for a in left for b in right if _agree(op, a, b)]
    met_left, met_right = {id(a) for a, _ in pairs}, {id(b) for _, b in pairs}
    match op.kind:
        case JoinKind.SEMI:
            return [a for a in left if id(a) in met_left]
        case JoinKind.ANTI:
            return [a for a in left if id(a) not in met_left]
    rows = [a | b for a, b in pairs]
    if op.kind in (JoinKind.LEFT, JoinKind.FULL):
        rows += [a | dict.fromkeys(op.right.columns) for a in left if id(a) not in met_left]
    if op.kind in (JoinKind.RIGHT, JoinKind.FULL):
        rows += [dict.fromkeys(op.left.columns) | b for b in right if id(b) not in met_right]
    return rows


def _agree(op: Join, a: Row, b: Row) -> bool:
    for left, right in op.keys:
        if freeze(a[left]) != freeze(b[right]) or (a[left] is None and not op.safe):
            return False
    return op.condition is None or value(op.condition, a | b) is True


# -- aggregates and windows --------------------------------------------------------------------------------------


def _folded(op: Group, rows: Rows) -> Row:
    return {k: rows[0][k] for k in op.keys} | {f.name: _fold(f, rows) for f in op.folds}


def _fold(fold: Fold, rows: Rows) -> Any:
    if fold.function == "count" and not fold.arguments:
        return len(rows)
    given = [tuple(value(a, r) for a in fold.arguments) for r in rows]
    if fold.function == "max_by":
        return max((g for g in given if g[1] is not None), key=lambda g: g[1], default=(None,))[0]
    return _FOLDS[fold.function]([g[0] for g in given if all(v is not None for v in g)])


def _or_null(function: Callable[[list[Any]], Any]) -> Callable[[list[Any]], Any]:
    return lambda values: function(values) if values else None


_FOLDS: dict[str, Callable[[list[Any]], Any]] = {
    "count": len,
    "sum": _or_null(lambda values: functools.reduce(operator.add, values)),
    "avg": _or_null(lambda values: float(sum(values)) / len(values)),
    "min": _or_null(min),
    "max": _or_null(max),
    "bool_and": _or_null(all),
    "bool_or": _or_null(any),
    "any_value": _or_null(lambda values: values[0]),
    "median": _or_null(lambda values: float(statistics.median(values))),
}


def _windowed(op: Window, rows: Rows) -> Rows:
    made: list[Row] = [dict(r) for r in rows]
    for item in op.items:
        tree = parse_expression(item.value.text)
        assert isinstance(tree, exp.Window), "the reference knows bare window functions only"
        order = tree.args.get("order")
        by = tuple(Expression(o.sql("spark"), frozenset()) for o in order.expressions) if order else ()
        ordered = _sorted(made, by)
        for position, row in enumerate(ordered):
            row[item.name] = _windowed_value(tree.this, ordered, position, by)
    return made


def _windowed_value(call: exp.Expr, rows: Rows, position: int, by: tuple[Expression, ...]) -> Any:
    if isinstance(call, exp.Sum | exp.Count):  # running, peers included
        peers = [r for r in rows if not by or _order_key(r, by) <= _order_key(rows[position], by)]
        if isinstance(call.this, exp.Star):
            return len(peers)
        values = [v for v in (_value(call.this, r) for r in peers) if v is not None]
        return len(values) if isinstance(call, exp.Count) else (sum(values) if values else None)
    name = call.name.lower() or call.key
    before = [r for r in rows if _order_key(r, by) < _order_key(rows[position], by)]
    ranks = {"row_number": position + 1, "rank": len(before) + 1, "rownumber": position + 1}
    return ranks[name]


def _sorted(rows: Rows, order: tuple[Expression, ...]) -> Rows:
    return sorted(rows, key=lambda r: _order_key(r, order))


class _Reversed:
    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __lt__(self, other: _Reversed) -> bool:
        return bool(other.inner < self.inner)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Reversed) and bool(self.inner == other.inner)

    def __le__(self, other: _Reversed) -> bool:
        return self < other or self == other


def _order_key(row: Row, order: tuple[Expression, ...]) -> tuple[Any, ...]:
    """NULL sorts first ascending and last descending, as in Spark."""
    keys = []
    for item in order:
        text = item.text
        down = text.upper().endswith(" DESC")
        tree = parse_expression(text[:-5] if down else text.removesuffix(" ASC"))
        found = _value(tree, row)
        key = (found is not None, 0 if found is None else found)
        keys.append(_Reversed(key) if down else key)
    return tuple(keys)


# -- expressions -------------------------------------------------------------------------------------------------


def value(expression: Expression, row: Row) -> Any:
    return _value(parse_expression(expression.text), row)


def _value(tree: exp.Expr, row: Row) -> Any:
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
            return _value(tree.this, row)
        case exp.And() | exp.Or():
            return _logic(tree, row)
        case exp.Not():
            inner = _value(tree.this, row)
            return None if inner is None else not inner
        case exp.Is():
            return (_value(tree.this, row) is None) == isinstance(tree.expression, exp.Null)
        case exp.NullSafeEQ():
            return freeze(_value(tree.this, row)) == freeze(_value(tree.expression, row))
        case exp.Case():
            return _case(tree, row)
        case exp.If():
            chosen = tree.args["true"] if _value(tree.this, row) is True else tree.args.get("false")
            return None if chosen is None else _value(chosen, row)
        case exp.Coalesce():
            given = (_value(a, row) for a in [tree.this, *tree.expressions])
            return next((v for v in given if v is not None), None)
        case exp.Cast():
            return _cast(_value(tree.this, row), tree.to)
        case exp.In():
            return _in(tree, row)
        case exp.Explode():
            return _value(tree.this, row)
        case exp.Neg():
            inner = _value(tree.this, row)
            return None if inner is None else -inner
        case exp.Array():
            return [_value(a, row) for a in tree.expressions]
        case exp.Anonymous():
            return _call(tree.name.lower(), [_value(a, row) for a in tree.expressions], tree)
        case exp.Binary():
            return _binary(tree, row)
    raise NotImplementedError(f"the reference evaluator does not know {tree.sql('spark')}")


def _logic(tree: exp.And | exp.Or, row: Row) -> bool | None:
    sides = [_value(tree.this, row), _value(tree.expression, row)]
    decisive = isinstance(tree, exp.Or)
    if decisive in sides:
        return decisive
    return None if None in sides else not decisive


def _case(tree: exp.Case, row: Row) -> Any:
    for branch in tree.args["ifs"]:
        if _value(branch.this, row) is True:
            return _value(branch.args["true"], row)
    default = tree.args.get("default")
    return None if default is None else _value(default, row)


def _in(tree: exp.In, row: Row) -> bool | None:
    found, options = _value(tree.this, row), [_value(o, row) for o in tree.expressions]
    if found is None:
        return None
    return True if found in options else (None if None in options else False)


def _cast(given: Any, to: exp.DataType) -> Any:
    if given is None:
        return None
    match to.this:
        case exp.DType.BIGINT | exp.DType.INT:
            return int(given)
        case exp.DType.DOUBLE:
            return float(given)
        case exp.DType.DECIMAL:
            return Decimal(given)
        case exp.DType.TEXT:
            return str(given)
    return given


def _call(name: str, given: list[Any], tree: exp.Anonymous) -> Any:
    match name:
        case "least" | "greatest":
            values = [v for v in given if v is not None]
            return (min(values) if name == "least" else max(values)) if values else None
        case "array_repeat":
            return [given[0]] * max(0, int(given[1]))
        case "struct":
            return {a.name: v for a, v in zip(tree.expressions, given, strict=True)}
        case "sqrt":
            return None if given[0] is None else given[0] ** 0.5
    raise NotImplementedError(f"the reference evaluator does not know the function {name}")


_BINARY: dict[type[exp.Expr], Callable[[Any, Any], Any]] = {
    exp.Add: operator.add,
    exp.Sub: operator.sub,
    exp.Mul: operator.mul,
    exp.Div: lambda a, b: a / b,
    exp.Mod: lambda a, b: a % b,
    exp.EQ: lambda a, b: freeze(a) == freeze(b),
    exp.NEQ: lambda a, b: freeze(a) != freeze(b),
    exp.LT: operator.lt,
    exp.LTE: operator.le,
    exp.GT: operator.gt,
    exp.GTE: operator.ge,
}


def _binary(tree: exp.Binary, row: Row) -> Any:
    left, right = _value(tree.this, row), _value(tree.expression, row)
    return None if left is None or right is None else _BINARY[type(tree)](left, right)
