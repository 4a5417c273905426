"""Operators as text, one a line, inputs indented below: what `explain` shows, and what identity is taken of."""

from __future__ import annotations

from collections.abc import Iterator

from tidemill.algebra.operators import (
    Apply,
    Explode,
    Filter,
    Fold,
    Group,
    Join,
    One,
    Operator,
    Project,
    Ref,
    Scan,
    Top,
    Union,
    Window,
    children,
)


def described(op: Operator) -> str:
    return "\n".join(_lines(op, ""))


def _lines(op: Operator, indent: str) -> Iterator[str]:
    yield indent + headline(op)
    for child in children(op):
        yield from _lines(child, indent + "  ")


def headline(op: Operator) -> str:
    """One operator in one line."""
    match op:
        case Scan():
            keyed = f" key {', '.join(op.keys)}" if op.keys else (" append" if op.append else "")
            return f"scan {op.channel} {op.at}{keyed}: {', '.join(op.columns)}"
        case One():
            return "one row"
        case Ref():
            return f"step {op.step}"
        case Project():
            return "project " + ", ".join(_named(i.name, i.value.text, plain=i.value.column) for i in op.items)
        case Filter():
            return f"filter {op.condition}"
        case Explode():
            return f"explode{' outer' if op.outer else ''} {op.generator} as {', '.join(op.outputs)}"
        case Union():
            return "union"
        case Join():
            on = ", ".join(f"{a} {'<=>' if op.safe else '='} {b}" for a, b in op.keys)
            return f"{op.kind} join on {on or 'nothing'}" + (f" where {op.condition}" if op.condition else "")
        case Group():
            folds = ", ".join(map(_fold, op.folds))
            return f"group by {', '.join(op.keys)}: {folds}" if folds else f"distinct {', '.join(op.keys)}"
        case Window():
            items = ", ".join(_named(i.name, i.value.text) for i in op.items)
            kept = f" where {op.keep}" if op.keep else ""
            return f"window by {', '.join(op.partition) or 'nothing'}: {items}{kept}"
        case Top():
            return f"top {op.limit}{f' after {op.skip}' if op.skip else ''} by {', '.join(o.text for o in op.order)}"
        case Apply():
            return f"apply {op.identity} by {', '.join(op.keys)}: {op.schema}"


def _named(name: str, text: str, *, plain: str | None = None) -> str:
    return name if plain == name else f"{text} as {name}"


def _fold(fold: Fold) -> str:
    call = fold.text or f"{fold.function}({', '.join(a.text for a in fold.arguments) or '*'})"
    return f"{call} as {fold.name}" + (f" of {fold.type}" if fold.type else "")
