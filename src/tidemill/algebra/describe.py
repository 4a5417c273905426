"""Operators as text, one a line, inputs indented below: what `explain` shows, and what identity is taken of."""

from __future__ import annotations

from collections.abc import Iterator

from tidemill.algebra.operators import (
    AggregateCall,
    Aggregation,
    Explode,
    Filter,
    GroupedMap,
    Join,
    Operator,
    Projection,
    Scan,
    SingleRow,
    StepReference,
    TopN,
    Union,
    WindowFunction,
    list_children,
)


def describe_operator(op: Operator) -> str:
    return "\n".join(_format_lines(op, ""))


def _format_lines(op: Operator, indent: str) -> Iterator[str]:
    yield indent + format_headline(op)
    for child in list_children(op):
        yield from _format_lines(child, indent + "  ")


def format_headline(op: Operator) -> str:
    """One operator in one line."""
    match op:
        case Scan():
            keyed = f" key {', '.join(op.keys)}" if op.keys else (" append" if op.append else "")
            return f"scan {op.channel} {op.at}{keyed}: {', '.join(op.columns)}"
        case SingleRow():
            return "one row"
        case StepReference():
            return f"step {op.step}"
        case Projection():
            return "project " + ", ".join(
                _format_item(i.name, i.value.text, plain=i.value.column_name) for i in op.items
            )
        case Filter():
            return f"filter {op.condition}"
        case Explode():
            return f"explode{' outer' if op.outer else ''} {op.generator} as {', '.join(op.outputs)}"
        case Union():
            return "union"
        case Join():
            on = ", ".join(f"{a} {'<=>' if op.safe else '='} {b}" for a, b in op.keys)
            return f"{op.kind} join on {on or 'nothing'}" + (f" where {op.condition}" if op.condition else "")
        case Aggregation():
            folds = ", ".join(map(_format_aggregate, op.folds))
            return f"group by {', '.join(op.keys)}: {folds}" if folds else f"distinct {', '.join(op.keys)}"
        case WindowFunction():
            items = ", ".join(_format_item(i.name, i.value.text) for i in op.items)
            kept = f" where {op.keep}" if op.keep else ""
            return f"window by {', '.join(op.partition) or 'nothing'}: {items}{kept}"
        case TopN():
            return f"top {op.limit}{f' after {op.skip}' if op.skip else ''} by {', '.join(o.text for o in op.order)}"
        case GroupedMap():
            return f"apply {op.identity} by {', '.join(op.keys)}: {op.schema}"


def _format_item(name: str, text: str, *, plain: str | None = None) -> str:
    return name if plain == name else f"{text} as {name}"


def _format_aggregate(fold: AggregateCall) -> str:
    call = fold.text or f"{fold.function}({', '.join(a.text for a in fold.arguments) or '*'})"
    return f"{call} as {fold.name}" + (f" of {fold.type}" if fold.type else "")
