"""The report of a failed case: the query, the difference, and a test to paste that reproduces it."""

from __future__ import annotations

from textwrap import wrap
from typing import Any

from tests.oracle.queries.case import Case, Scale
from tests.oracle.queries.compare import Difference
from tests.oracle.queries.histories import Input, Insert

from tidemill.model.block import BlockKind

MAX_SHOWN_ROWS = 10


class Different(AssertionError):
    """A table differs from its query's result; `case` is the part that shows it."""

    def __init__(self, case: Case, table: str, kind: str, details: str) -> None:
        self.case = case.about(table)
        self.kind = kind
        title = f"{table} after step {len(case.history)}: {kind}"
        parts = (title, case.queries[table], details, "To reproduce:", format_test(self.case))
        super().__init__("\n\n".join(parts))


def format_difference(left: str, right: str, difference: Difference) -> str:
    """The rows that are on one side only."""
    return "\n".join((_format_side(left, difference.left), _format_side(right, difference.right)))


def format_test(case: Case) -> str:
    """The case as a test for `test_query_regressions.py`."""
    lines = [
        "def test_found(spark: SparkSession) -> None:",
        "    queries = {",
        *(f"        {name!r}: (\n{_wrap_text(text)}\n        )," for name, text in case.queries.items()),
        "    }",
        "    inputs = [",
        *(f"        {_format_input(i)}," for i in case.inputs),
        "    ]",
        "    history = [",
        *(f"        [{', '.join(map(_format_insert, step))}]," for step in case.history),
        "    ]",
        f"    check(spark, queries, inputs, history{_format_scale(case)})",
    ]
    return "\n".join(lines)


def _wrap_text(text: str) -> str:
    lines = wrap(text, 100, drop_whitespace=False, break_long_words=False, break_on_hyphens=False)
    return "\n".join(f"            {line!r}" for line in lines)


def _format_input(channel: Input) -> str:
    updates = f"{type(channel.updates).__name__}({channel.updates.key or ''})"
    return f"Input({channel.name!r}, {channel.schema!r}, {updates})"


def _format_insert(insert: Insert) -> str:
    base = ", Kind.BASE" if insert.kind is BlockKind.BASE else ""
    return f"Insert({insert.channel!r}, {insert.rows!r}{base})"


def _format_scale(case: Case) -> str:
    return "" if case.scale is Scale.SMALL else f", Scale.{case.scale.name}"


def _format_side(side: str, rows: list[dict[str, Any]]) -> str:
    more = [f"and {len(rows) - MAX_SHOWN_ROWS} more"] if len(rows) > MAX_SHOWN_ROWS else []
    return "\n  ".join([f"only in {side}: {len(rows)} rows", *map(str, rows[:MAX_SHOWN_ROWS]), *more])
