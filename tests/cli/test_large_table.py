"""Tables of many rows look like others."""

from __future__ import annotations

import io

import pytest

from tidemill.cli import output
from tidemill.cli.output import build_console, build_table
from tidemill.display.table import TableCell

ROWS = [
    ["a", 1, TableCell("late", tone="late"), ["two", "lines"]],
    ["longer", 22222, None, "z"],
    ["日本", 3, "[bold]", []],
]


def render(monkeypatch: pytest.MonkeyPatch, limit: int, title: str) -> list[str]:
    """The printed lines, if tables of more than `limit` rows are large."""
    monkeypatch.setattr(output, "MAX_WRAPPED_ROWS", limit)
    stream = io.StringIO()
    build_console(stream).print(build_table(title, ["name", ">number", "state", "list"], ROWS))
    return [line.rstrip() for line in stream.getvalue().splitlines()]


@pytest.mark.parametrize("title", ["title", ""])
def test_a_large_table_is_printed_as_a_small_one(monkeypatch: pytest.MonkeyPatch, title: str) -> None:
    small, large = (render(monkeypatch, limit, title) for limit in (len(ROWS), len(ROWS) - 1))
    assert large == small
    assert len(large) == bool(title) + 2 + 4


def test_a_large_table_keeps_the_tones_of_states(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "MAX_WRAPPED_ROWS", 0)
    console = output.Console(file=io.StringIO(), force_terminal=True, color_system="standard", width=200)
    console.print(build_table("", ["state"], [[TableCell("failed", tone="failed")]]))
    assert "\x1b[31mfailed" in console.file.getvalue()  # type: ignore[attr-defined]
