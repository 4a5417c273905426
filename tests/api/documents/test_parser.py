"""One-shot workflows in JSON: parsing, and every kind of error."""

from __future__ import annotations

import json
import re
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.oracle.corpus.harness import read_queries

from tidemill.api.documents.parser import find_problems, parse_workflow
from tidemill.errors import WorkflowError
from tidemill.model.action import ActionParent, CommandLine, FunctionCall, Query, Script

WORKFLOW: dict[str, Any] = {
    "name": "words",
    "startActionId": 1,
    "endActionId": 4,
    "actions": [
        {"id": 1, "name": "fetch", "type": "command-line", "command": ["./fetch", "{output}"], "files": ["fetch"]},
        {"id": 2, "name": "clean it", "type": "pyspark-script", "script": "clean.py", "parentActions": [{"id": 1}]},
        {
            "id": "3",
            "name": "counts",
            "type": "spark-sql",
            "query": "SELECT word, count(*) AS n FROM words GROUP BY word",
            "parentActions": [{"id": 2, "as": "words"}],
            "forceComputation": True,
        },
        {
            "id": 4,
            "name": "top",
            "type": "python-function",
            "function": "reports:top",
            "parentActions": [{"id": 3}, {"id": 2}],
            "isManaged": False,
            "path": "/data/top",
            "parameters": {"n": 10},
            "attempts": 3,
        },
    ],
}


def edit_workflow(*path: str | int, to: Any) -> dict[str, Any]:
    """The workflow with another value at a path, which is added if it did not exist."""
    data = deepcopy(WORKFLOW)
    parent: Any = data
    for step in path[:-1]:
        parent = parent[step]
    parent[path[-1]] = to
    return data


def test_every_field_is_parsed() -> None:
    parsed = parse_workflow(json.dumps(WORKFLOW))
    fetch, clean, counts, top = parsed.actions
    assert (parsed.name, parsed.start, parsed.end) == ("words", "1", "4")
    assert fetch.work == CommandLine(("./fetch", "{output}"), ("fetch",))
    assert clean.work == Script("clean.py")
    assert isinstance(counts.work, Query)
    assert top.work == FunctionCall("reports:top")
    assert counts.parents == (ActionParent("2", "words"),)
    assert top.parents == (ActionParent("3", "counts"), ActionParent("2", "action_2"))
    assert (counts.force, top.force, top.path, top.attempts) == (True, False, "/data/top", 3)
    assert parsed.list_permanent_actions() == {"4"}


def test_the_example_in_the_documentation_is_valid() -> None:
    page = (Path(__file__).parents[3] / "docs" / "one-shot-workflows.md").read_text()
    (example,) = re.findall(r"```json\n# words\.json\n(.*?)```", page, re.DOTALL)
    assert [a.name for a in parse_workflow(example).sort_actions()] == ["numbers", "evens"]


def test_actions_may_be_listed_in_any_order() -> None:
    data = WORKFLOW | {"actions": WORKFLOW["actions"][::-1]}
    assert [a.id for a in parse_workflow(json.dumps(data)).sort_actions()] == ["1", "2", "3", "4"]


RULES = {
    "1: at least one action": (edit_workflow("actions", to=[]), "/actions", "at least one action"),
    "2: ids are unique": (edit_workflow("actions", 1, "id", to=1), "/actions/1/id", "used by /actions/0"),
    "2: 1 and '1' are the same": (edit_workflow("actions", 1, "id", to="1"), "/actions/1/id", "used by /actions/0"),
    "3: the start is an action": (edit_workflow("startActionId", to=9), "/startActionId", "no action with id 9"),
    "3: the end is an action": (edit_workflow("endActionId", to="x"), "/endActionId", "no action with id 'x'"),
    "3: parents are actions": (
        edit_workflow("actions", 1, "parentActions", to=[{"id": 7}]),
        "/actions/1/parentActions/0/id",
        "no action with id 7",
    ),
    "4: nothing depends on itself": (
        edit_workflow("actions", 0, "parentActions", to=[{"id": 3}]),
        "/parentActions",
        "is a cycle",
    ),
    "5: the end does not lead to the start": (
        WORKFLOW | {"startActionId": 4, "endActionId": 1},
        "/endActionId",
        "leads to the start",
    ),
}


@pytest.mark.parametrize(("data", "pointer", "reason"), RULES.values(), ids=list(RULES))
def test_each_rule_is_enforced_with_position_and_reason(data: Any, pointer: str, reason: str) -> None:
    problems = find_problems(data)
    assert any(p.pointer.endswith(pointer) and reason in p.reason for p in problems)
    with pytest.raises(WorkflowError, match=pointer):
        parse_workflow(json.dumps(data))


def test_one_action_may_be_start_and_end() -> None:
    assert find_problems(WORKFLOW | {"startActionId": 1, "endActionId": 1}) == []


FORMS = {
    "no object": ([], "", "expected an object, found []"),
    "a field missing": (
        edit_workflow("actions", 0, to={"id": 1, "name": "x", "type": "spark-sql"}),
        "/actions/0",
        "'query'",
    ),
    "a field unknown": (edit_workflow("actions", 0, "comand", to=[]), "/actions/0/comand", "did you mean 'command'?"),
    "a wrong type": (
        edit_workflow("actions", 0, "type", to="command"),
        "/actions/0/type",
        "did you mean 'command-line'?",
    ),
    "a wrong value": (edit_workflow("actions", 2, "forceComputation", to="yes"), "/forceComputation", "true or false"),
    "true is no id": (edit_workflow("endActionId", to=True), "/endActionId", "found true"),
    "a path that is managed": (edit_workflow("actions", 0, "path", to="/x"), "/actions/0/path", "isManaged false"),
    "no path": (edit_workflow("actions", 0, "isManaged", to=False), "/actions/0", "needs a path"),
    "a name twice": (
        edit_workflow("actions", 3, "parentActions", to=[{"id": 3}, {"id": 2, "as": "counts"}]),
        "/actions/3/parentActions/1",
        "already used",
    ),
    "no name": (
        edit_workflow("actions", 1, "parentActions", to=[{"id": 1, "as": "a b"}]),
        "/as",
        "is not a valid name",
    ),
}


@pytest.mark.parametrize(("data", "pointer", "reason"), FORMS.values(), ids=list(FORMS))
def test_the_form_is_checked_with_position_and_reason(data: Any, pointer: str, reason: str) -> None:
    assert any(p.pointer.endswith(pointer) and reason in p.reason for p in find_problems(data))


def test_invalid_json_is_rejected_with_its_line() -> None:
    with pytest.raises(WorkflowError, match="line 3, column 1: not JSON"):
        parse_workflow('{\n"name": "x",\n}')
    with pytest.raises(WorkflowError, match="'name' occurs twice"):
        parse_workflow('{"name": "x", "name": "y"}')
    with pytest.raises(WorkflowError, match="u0000"):
        parse_workflow(json.dumps(WORKFLOW | {"name": "a\\\0"}))
    parse_workflow(json.dumps(WORKFLOW | {"name": r"a\u0000"}))


def test_all_problems_are_found_at_once() -> None:
    data = edit_workflow("actions", 0, "command", to="ls")
    del data["name"]
    assert {p.pointer for p in find_problems(data)} == {"", "/actions/0/command"}


def build_with_paths(*paths: str) -> dict[str, Any]:
    """The workflow with outputs at these paths."""
    data = deepcopy(WORKFLOW)
    for action in data["actions"]:
        action.pop("path", None)
        action.pop("isManaged", None)
    for action, path in zip(data["actions"], paths, strict=False):
        action |= {"isManaged": False, "path": path}
    return data


def test_outputs_must_not_share_or_nest_paths() -> None:
    assert find_problems(build_with_paths("out", "out-2", "other/out", "/out")) == []
    for paths in (("out", "out"), ("out", "x", "x/../out/"), ("out", "out/daily"), ("out/daily", "out")):
        (problem,) = find_problems(build_with_paths(*paths))
        assert problem.pointer == f"/actions/{len(paths) - 1}/path"
        assert "/actions/0" in problem.reason
        with pytest.raises(WorkflowError, match="a separate path"):
            parse_workflow(json.dumps(build_with_paths(*paths)))


def test_a_form_problem_hides_no_rule_violation() -> None:
    data = edit_workflow("actions", 0, "isManaged", to=False)  # without a path
    data["startActionId"] = 9
    data["actions"][2]["parentActions"] = [{"id": 3, "as": "words"}, {"as": "x"}]
    assert {p.pointer for p in find_problems(data)} == {
        "/actions/0",
        "/startActionId",
        "/actions/2/parentActions",
        "/actions/2/parentActions/1",
    }


def test_a_reference_to_an_action_without_an_id_is_no_second_problem() -> None:
    data = deepcopy(WORKFLOW)
    del data["actions"][1]["id"]
    assert {p.pointer for p in find_problems(data)} == {"/actions/1"}


json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-2, 5), st.floats(allow_nan=False), st.text(max_size=4)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=4), inner, max_size=3)),
    max_leaves=8,
)


@given(data=json_values)
def test_any_other_json_is_rejected_without_an_exception(data: Any) -> None:
    assert find_problems(data)


@pytest.mark.parametrize(
    "query",
    ["SELEC x FROM t", "SELECT (x FROM t", "SELECT x) FROM (t", "DROP TABLE t", "SELECT 1; SELECT 2", "--"],
)
def test_a_text_that_is_certainly_no_query_is_a_problem(query: str) -> None:
    (problem,) = find_problems(edit_workflow("actions", 2, "query", to=query))
    assert (problem.pointer, problem.reason[:8]) == ("/actions/2/query", "expected")


def test_every_query_that_spark_accepts_is_accepted() -> None:
    """Among them constructs that sqlglot cannot parse."""
    queries = [*read_queries().values(), "SELECT 1 AS x;", "VALUES (1)", "((SELECT 1 AS x))", "SELECT 'x"]
    assert [query for query in queries if find_problems(edit_workflow("actions", 2, "query", to=query))] == []
