"""What Spark Connect does not take must not be asked of it; `make test-cluster` has a real session."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import tidemill.spark

MODES = {"append", "overwrite", "error", "ignore"}
"""Modes of writing that Spark Connect knows; `errorifexists` is none of them."""


def _modes(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "mode":
            yield from (str(a.value) for a in node.args if isinstance(a, ast.Constant))


def test_modes_of_writing_are_those_of_spark_connect() -> None:
    room = Path(tidemill.spark.__path__[0])
    found = {mode for path in room.rglob("*.py") for mode in _modes(path)}
    assert found
    assert found <= MODES
