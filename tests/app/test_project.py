"""Loading of a project: workflow files, and modules of functions."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidemill.app.project import build_source_resolver, load_project
from tidemill.errors import WorkflowError
from tidemill.model.code import trace_code

FAILING = """
import sys

row = "Ann"
{}
"""

CACHING = """
from functools import partial

cache = {}

def count(rows):
    return len(cache)

part = partial(count, 1)

def fill():
    cache["a"] = 1
"""


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ('raise ValueError(f"row {row} is late")', r"ValueError: row \*\*\* is late"),
        ("sys.exit(row)", "SystemExit"),
        ("int(row)", r"ValueError: invalid literal for int\(\) with base 10: \*\*\*"),
    ],
)
def test_a_file_that_fails_on_import_is_reported_without_values(tmp_path: Path, statement: str, reason: str) -> None:
    module = f"failing_{tmp_path.name}"
    (tmp_path / f"{module}.py").write_text(FAILING.format(statement))
    expected = rf"cannot be imported: {reason} \(.*{module}\.py:5\)$"
    with pytest.raises(WorkflowError, match=expected):
        load_project(tmp_path, [f"{module}.py"])
    with pytest.raises(WorkflowError, match=expected):
        build_source_resolver(tmp_path, lambda _: None).find_function(f"{module}:top")


def test_the_code_of_a_function_does_not_depend_on_later_values_of_globals(tmp_path: Path) -> None:
    """Another function of the module may fill a cache before the function is first used."""
    module = f"caching_{tmp_path.name}"
    (tmp_path / f"{module}.py").write_text(CACHING)
    find = build_source_resolver(tmp_path, lambda _: None).find_function
    find(f"{module}:fill")()
    filled = [trace_code(find(f"{module}:{name}")) for name in ("count", "part")]
    assert "'a'" not in str(filled)
    assert '"a"' not in str(filled)
