"""What a failed case says: which query, what went wrong, and a test to paste that shows it again."""

from __future__ import annotations

from textwrap import wrap
from typing import Any

from tests.oracle.queries.case import Case, Scale
from tests.oracle.queries.compare import Difference
from tests.oracle.queries.histories import Input, Insert

from tidemill.model.block import BlockKind

SHOWN = 10


class Different(AssertionError):
    """A table is not what its query makes of the content; `case` is as much as is needed to see it."""

    def __init__(self, case: Case, table: str, kind: str, details: str) -> None:
        self.case = case.about(table)
        self.kind = kind
        title = f"{table} after step {len(case.history)}: {kind}"
        parts = (title, case.queries[table], details, "Shown again by:", reproduction(self.case))
        super().__init__("\n\n".join(parts))


def rows_of(left: str, right: str, difference: Difference) -> str:
    """The rows that only one of the two has."""
    return "\n".join((_only(left, difference.left), _only(right, difference.right)))


def reproduction(case: Case) -> str:
    """The case as a test for `test_query_regressions.py`."""
    lines = [
        "def test_found(spark: SparkSession) -> None:",
        "    queries = {",
        *(f"        {name!r}: (\n{_wrapped(text)}\n        )," for name, text in case.queries.items()),
        "    }",
        "    inputs = [",
        *(f"        {_input(i)}," for i in case.inputs),
        "    ]",
        "    history = [",
        *(f"        [{', '.join(map(_insert, step))}]," for step in case.history),
        "    ]",
        f"    check(spark, queries, inputs, history{_scale(case)})",
    ]
    return "\n".join(lines)


def _wrapped(text: str) -> str:
    lines = wrap(text, 100, drop_whitespace=False, break_long_words=False, break_on_hyphens=False)
    return "\n".join(f"            {line!r}" for line in lines)


def _input(channel: Input) -> str:
    updates = f"{type(channel.updates).__name__}({channel.updates.key or ''})"
    return f"Input({channel.name!r}, {channel.schema!r}, {updates})"


def _insert(insert: Insert) -> str:
    base = ", Kind.BASE" if insert.kind is BlockKind.BASE else ""
    return f"Insert({insert.channel!r}, {insert.rows!r}{base})"


def _scale(case: Case) -> str:
    return "" if case.scale is Scale.SMALL else f", Scale.{case.scale.name}"


def _only(side: str, rows: list[dict[str, Any]]) -> str:
    more = [f"and {len(rows) - SHOWN} more"] if len(rows) > SHOWN else []
    return "\n  ".join([f"only in {side}: {len(rows)} rows", *map(str, rows[:SHOWN]), *more])
