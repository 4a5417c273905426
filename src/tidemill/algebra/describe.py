"""Operators as text, one a line, inputs indented below: shown by `explain` and hashed for a query's identity."""

from collections.abc import Iterator

from tidemill.algebra import operators as ops


def describe_operator(op: ops.Operator) -> str:
    return "\n".join(_format_lines(op, ""))


def _format_lines(op: ops.Operator, indent: str) -> Iterator[str]:
    yield indent + format_headline(op)
    for child in ops.list_children(op):
        yield from _format_lines(child, indent + "  ")


def format_headline(op: ops.Operator) -> str:
    match op:
        case ops.Scan():
            key_text = f" key {', '.join(op.keys)}" if op.keys else (" append" if op.append_only else "")
            return f"scan {op.channel} {op.mode}{key_text}: {', '.join(op.columns)}"
        case ops.BlockScan():
            return f"scan {len(op.blocks)} blocks: {', '.join(op.columns)}"
        case ops.CustomMerge():
            return f"{op.function} by {', '.join(op.updates.key)}"
        case ops.SingleRow():
            return "one row"
        case ops.StepReference():
            return f"step {op.step}"
        case ops.Projection():
            items = (_format_item(i.name, i.value.text, plain=i.value.column_name) for i in op.items)
            return f"project {', '.join(items)}"
        case ops.Filter():
            return f"filter {op.condition}"
        case ops.Explode():
            return f"explode{' outer' if op.outer else ''} {op.generator} as {', '.join(op.outputs)}"
        case ops.Union():
            return "union"
        case ops.Join():
            on = ", ".join(f"{a} {'<=>' if op.null_safe else '='} {b}" for a, b in op.keys)
            return f"{op.kind} join on {on or 'nothing'}" + (f" where {op.condition}" if op.condition else "")
        case ops.Aggregation():
            aggregates = ", ".join(map(_format_aggregate, op.calls))
            return f"group by {', '.join(op.keys)}: {aggregates}" if aggregates else f"distinct {', '.join(op.keys)}"
        case ops.WindowFunction():
            items = (_format_item(i.name, i.value.text) for i in op.items)
            condition = f" where {op.condition}" if op.condition else ""
            return f"window by {', '.join(op.partition) or 'nothing'}: {', '.join(items)}{condition}"
        case ops.TopN():
            return f"top {op.limit}{f' after {op.skip}' if op.skip else ''} by {', '.join(o.text for o in op.order)}"
        case ops.GroupedMap():
            return f"apply {op.identity} by {', '.join(op.keys)}: {op.schema}"


def _format_item(name: str, text: str, *, plain: str | None = None) -> str:
    return name if plain == name else f"{text} as {name}"


def _format_aggregate(aggregate: ops.AggregateCall) -> str:
    call = aggregate.text or f"{aggregate.function}({', '.join(a.text for a in aggregate.arguments) or '*'})"
    return f"{call} as {aggregate.name}" + (f" of {aggregate.type}" if aggregate.type else "")
