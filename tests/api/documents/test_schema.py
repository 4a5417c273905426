"""The published schema is that of the parser, and both accept the same documents."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import jsonschema_rs
from hypothesis import given
from hypothesis import strategies as st
from tests.api.documents.schema import build_schema
from tests.api.documents.test_parser import WORKFLOW

from tidemill.api.documents.parser import check_form

PUBLISHED = Path(__file__).parents[3] / "docs" / "schemas" / "one-shot-workflow.json"
VALIDATOR = jsonschema_rs.validator_for(build_schema())


def test_the_published_schema_is_up_to_date() -> None:
    assert json.loads(PUBLISHED.read_text()) == build_schema(), "publish json.dumps(build_schema(), indent=2)"


def test_the_example_is_valid() -> None:
    assert VALIDATOR.is_valid(WORKFLOW)


odd_values = st.sampled_from(
    [None, True, False, 0, 1, 1.0, 1.5, -1, "", "x", "spark-sql", [], ["a"], [1], {}, {"id": 1}]
)


def list_paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    paths = [path] if path else []
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return paths + [p for key, inner in entries for p in list_paths(inner, (*path, key))]


@st.composite
def documents(draw: st.DrawFn) -> Any:
    """The example with one or two values changed, removed or added."""
    data = deepcopy(WORKFLOW)
    for _ in range(draw(st.integers(1, 2))):
        path = draw(st.sampled_from(list_paths(data)))
        parent: Any = data
        for step in path[:-1]:
            parent = parent[step]
        edit = draw(st.sampled_from(["change", "remove", "add"]))
        if edit == "remove":
            del parent[path[-1]]
        elif edit == "add" and isinstance(parent, dict):
            parent[draw(st.sampled_from(["path", "isManaged", "version", "query", "files", "as", "other"]))] = deepcopy(
                draw(odd_values)
            )
        else:
            parent[path[-1]] = deepcopy(draw(odd_values))
        if not list_paths(data):
            return data
    return data


@given(data=documents())
def test_the_parser_and_the_schema_agree(data: Any) -> None:
    is_accepted = not check_form(data)[1] and data["actions"] != []
    assert VALIDATOR.is_valid(data) == is_accepted
