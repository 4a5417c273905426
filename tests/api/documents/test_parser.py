"""One-shot workflows in JSON: what is read from them, and every way in which they can be wrong."""

from __future__ import annotations

import json
import re
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemill.api.documents import find_problems, parse_workflow
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


def edited(*path: str | int, to: Any) -> dict[str, Any]:
    """The workflow with another value at a place; a new one if there was none."""
    data = deepcopy(WORKFLOW)
    at: Any = data
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = to
    return data


def test_everything_that_is_said_is_read() -> None:
    found = parse_workflow(json.dumps(WORKFLOW))
    fetch, clean, counts, top = found.actions
    assert (found.name, found.start, found.end) == ("words", "1", "4")
    assert fetch.work == CommandLine(("./fetch", "{output}"), ("fetch",))
    assert clean.work == Script("clean.py")
    assert isinstance(counts.work, Query)
    assert top.work == FunctionCall("reports:top")
    assert counts.parents == (ActionParent("2", "words"),)
    assert top.parents == (ActionParent("3", "counts"), ActionParent("2", "action_2"))
    assert (counts.force, top.force, top.path, top.attempts) == (True, False, "/data/top", 3)
    assert found.list_permanent_actions() == {"4"}


def test_the_example_of_the_documentation_is_valid() -> None:
    page = (Path(__file__).parents[3] / "docs" / "reuse.md").read_text()
    (example,) = re.findall(r"```json\n(.*?)```", page, re.DOTALL)
    assert [a.name for a in parse_workflow(example).sort_actions()] == ["raw", "words", "counts"]


def test_actions_stand_in_any_order_and_run_in_theirs() -> None:
    data = WORKFLOW | {"actions": WORKFLOW["actions"][::-1]}
    assert [a.id for a in parse_workflow(json.dumps(data)).sort_actions()] == ["1", "2", "3", "4"]


RULES = {
    "1: at least one action": (edited("actions", to=[]), "/actions", "at least one action"),
    "2: ids are unique": (edited("actions", 1, "id", to=1), "/actions/1/id", "used by /actions/0"),
    "2: 1 and '1' are the same": (edited("actions", 1, "id", to="1"), "/actions/1/id", "used by /actions/0"),
    "3: the start is an action": (edited("startActionId", to=9), "/startActionId", "no action with id 9"),
    "3: the end is an action": (edited("endActionId", to="x"), "/endActionId", "no action with id 'x'"),
    "3: parents are actions": (
        edited("actions", 1, "parentActions", to=[{"id": 7}]),
        "/actions/1/parentActions/0/id",
        "no action with id 7",
    ),
    "4: nothing depends on itself": (
        edited("actions", 0, "parentActions", to=[{"id": 3}]),
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
def test_each_rule_is_enforced_with_the_place_and_the_reason(data: Any, pointer: str, reason: str) -> None:
    found = find_problems(data)
    assert any(p.pointer.endswith(pointer) and reason in p.reason for p in found)
    with pytest.raises(WorkflowError, match=pointer):
        parse_workflow(json.dumps(data))


def test_one_action_may_be_start_and_end() -> None:
    assert find_problems(WORKFLOW | {"startActionId": 1, "endActionId": 1}) == []


FORMS = {
    "no object": ([], "", "expected an object, found []"),
    "a field missing": (edited("actions", 0, to={"id": 1, "name": "x", "type": "spark-sql"}), "/actions/0", "'query'"),
    "a field unknown": (edited("actions", 0, "comand", to=[]), "/actions/0/comand", "did you mean 'command'?"),
    "a wrong type": (edited("actions", 0, "type", to="command"), "/actions/0/type", "did you mean 'command-line'?"),
    "a wrong value": (edited("actions", 2, "forceComputation", to="yes"), "/forceComputation", "true or false"),
    "true is no id": (edited("endActionId", to=True), "/endActionId", "found true"),
    "a path that is managed": (edited("actions", 0, "path", to="/x"), "/actions/0/path", "isManaged false"),
    "no path": (edited("actions", 0, "isManaged", to=False), "/actions/0", "needs a path"),
    "a name twice": (
        edited("actions", 3, "parentActions", to=[{"id": 3}, {"id": 2, "as": "counts"}]),
        "/actions/3/parentActions/1",
        "already used",
    ),
    "no name": (edited("actions", 1, "parentActions", to=[{"id": 1, "as": "a b"}]), "/as", "is not a valid name"),
}


@pytest.mark.parametrize(("data", "pointer", "reason"), FORMS.values(), ids=list(FORMS))
def test_the_form_is_checked_with_the_place_and_the_reason(data: Any, pointer: str, reason: str) -> None:
    assert any(p.pointer.endswith(pointer) and reason in p.reason for p in find_problems(data))


def test_what_is_no_json_is_refused_with_the_line() -> None:
    with pytest.raises(WorkflowError, match="line 3, column 1: not JSON"):
        parse_workflow('{\n"name": "x",\n}')
    with pytest.raises(WorkflowError, match="'name' occurs twice"):
        parse_workflow('{"name": "x", "name": "y"}')


def test_all_problems_are_found_at_once() -> None:
    data = edited("actions", 0, "command", to="ls")
    del data["name"]
    assert {p.pointer for p in find_problems(data)} == {"", "/actions/0/command"}


def placed(*paths: str) -> dict[str, Any]:
    """The workflow with outputs at these paths."""
    data = deepcopy(WORKFLOW)
    for action in data["actions"]:
        action.pop("path", None)
        action.pop("isManaged", None)
    for action, path in zip(data["actions"], paths, strict=False):
        action |= {"isManaged": False, "path": path}
    return data


def test_no_output_is_put_where_another_is() -> None:
    assert find_problems(placed("out", "out-2", "other/out", "/out")) == []
    for paths in (("out", "out"), ("out", "x", "x/../out/"), ("out", "out/daily"), ("out/daily", "out")):
        (problem,) = find_problems(placed(*paths))
        assert problem.pointer == f"/actions/{len(paths) - 1}/path"
        assert "/actions/0" in problem.reason
        with pytest.raises(WorkflowError, match="a separate path"):
            parse_workflow(json.dumps(placed(*paths)))


def test_a_problem_of_the_form_hides_none_of_the_rules() -> None:
    data = edited("actions", 0, "isManaged", to=False)  # without a path
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
def test_whatever_comes_is_refused_and_never_crashes(data: Any) -> None:
    assert find_problems(data)
