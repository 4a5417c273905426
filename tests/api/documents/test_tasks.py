"""Actions as tasks, and their identities."""

from __future__ import annotations

import json
from collections.abc import Mapping
from os.path import normpath
from pathlib import Path
from typing import Any

import pytest
from tests.api.documents.test_parser import WORKFLOW, edit_workflow

from tidemill.api.documents.parser import parse_workflow
from tidemill.api.documents.tasks import SourceResolver, build_nodes, validate_workflow
from tidemill.errors import WorkflowError
from tidemill.model.task import Command, Function, Sql
from tidemill.retention.memo import IdentifiedNode, identify_nodes

FILES = {"fetch": b"#!/bin/sh\n", "clean.py": b"import sys\n\nprint(sys.argv)  # shown\n"}


def top(counts: Any, action_2: Any, n: int) -> Any:
    return counts.limit(n)


def identify(data: Mapping[str, Any], files: Mapping[str, bytes] = FILES) -> dict[str, IdentifiedNode]:
    nodes = build_nodes(
        parse_workflow(json.dumps(data)), SourceResolver(files.__getitem__, {"reports:top": top}.__getitem__)
    )
    return identify_nodes(nodes, lambda _: None, {})


def find_changed_actions(data: Mapping[str, Any], files: Mapping[str, bytes] = FILES) -> set[str]:
    """The actions whose identity differs from that in the example."""
    before, after = identify(WORKFLOW), identify(data, files)
    return {i for i in before if before[i].identity != after[i].identity}


def test_each_kind_of_action_becomes_a_task() -> None:
    nodes = build_nodes(parse_workflow(json.dumps(WORKFLOW)), SourceResolver(FILES.__getitem__, lambda _: top))
    codes = [n.task.variant.code for n in nodes]
    assert [type(c) for c in codes] == [Command, Command, Sql, Function]
    assert isinstance(codes[1], Command)
    assert codes[1].argv == ("spark-submit", "clean.py")
    assert [r.argument for r in nodes[3].task.reads] == ["counts", "action_2"]
    assert nodes[3].task.retry.attempts == 3


def test_irrelevant_changes_keep_identities() -> None:
    assert find_changed_actions(WORKFLOW) == set()
    assert find_changed_actions(edit_workflow("name", to="other")) == set()
    assert find_changed_actions(edit_workflow("actions", 0, "name", to="renamed")) == set()
    assert find_changed_actions(edit_workflow("actions", 3, "path", to="/elsewhere")) == set()
    assert find_changed_actions(WORKFLOW, FILES | {"clean.py": b"import sys\nprint( sys.argv )"}) == set()
    query = "select word, COUNT(*) as n\nfrom words -- all\ngroup by word"
    assert find_changed_actions(edit_workflow("actions", 2, "query", to=query)) == set()


def chain(name: str, query: str, command: str) -> dict[str, Any]:
    """An action of that name, and two that read it."""
    read = [{"id": 1}]
    actions = [
        {"id": 1, "name": name, "type": "command-line", "command": ["./fetch", "{output}"], "files": ["fetch"]},
        {"id": 2, "name": "counts", "type": "spark-sql", "query": query, "parentActions": read},
        {"id": 3, "name": "top", "type": "command-line", "command": ["top", command], "parentActions": read},
    ]
    return {"name": "words", "startActionId": 1, "endActionId": 3, "actions": actions}


def identities(data: Mapping[str, Any]) -> list[str]:
    return [n.identity for n in identify(data).values()]


def test_renaming_an_action_with_its_references_keeps_identities() -> None:
    before = chain("raw", "SELECT raw.x, count(*) AS n FROM raw GROUP BY raw.x", "{raw}/part")
    after = chain("clean", "SELECT clean.x, count(*) AS n FROM `clean` GROUP BY clean.x", "{clean}/part")
    assert identities(before) == identities(after)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT {0} FROM {0}",
        "SELECT {0}.x FROM {0} AS t",
        "SELECT {0}.x FROM (SELECT * FROM {0}) AS t",
        "WITH {0} AS (SELECT 1 AS x) SELECT * FROM {0}",
        "SELECT x AS {0} FROM {0}",
        "SELECT struct(x AS {0}) AS s FROM {0}",
        "SELECT '{0}' AS x FROM {0}",
        "SELECT 1 AS input_0 FROM {0}",
    ],
)
def test_an_ambiguous_name_is_part_of_the_identity(query: str) -> None:
    """The column `raw` differs from the column `clean`."""
    assert (
        identities(chain("raw", query.format("raw"), "x"))[1]
        != identities(chain("clean", query.format("clean"), "x"))[1]
    )


def test_inputs_are_distinguished_by_position() -> None:
    def identify_difference(first: int, second: int, query: str) -> str:
        data = chain("raw", "SELECT * FROM raw", "{raw}")
        data["actions"][2] |= {"type": "spark-sql", "query": query}
        del data["actions"][2]["command"]
        data["actions"][2]["parentActions"] = [{"id": first, "as": "a"}, {"id": second, "as": "b"}]
        return identify(data)["3"].identity

    minus = "SELECT * FROM a EXCEPT SELECT * FROM b"
    assert identify_difference(1, 2, minus) != identify_difference(2, 1, minus)
    assert identify_difference(1, 2, minus) != identify_difference(1, 2, "SELECT * FROM b EXCEPT SELECT * FROM a")


def test_all_problems_are_reported_at_once() -> None:
    """Problems of form, rule violations and missing files."""
    data = edit_workflow("endActionId", to=9)
    data["actions"][0] |= {"isManaged": False, "files": ["gone", "lost"]}
    data["actions"][1] |= {"script": "gone.py", "parentActions": [{"id": 7}]}
    data["actions"][2] |= {"isManaged": False, "path": "../data/top/./"}

    def read(path: str) -> bytes:
        raise WorkflowError([f"{path} cannot be read"])

    with pytest.raises(WorkflowError) as error:
        validate_workflow(
            json.dumps(data), SourceResolver(read, lambda _: top, lambda path: normpath(Path("/project") / path))
        )
    pointers = [problem.partition(":")[0] for problem in error.value.problems]
    assert pointers == [
        "/actions/0",  # no path
        "/endActionId",
        "/actions/1/parentActions/0/id",
        "/actions/3/path",  # that of another output
        "/actions/0",  # no file
        "/actions/0",  # nor the other one
        "/actions/1",  # no script
    ]


def find_all_problems(data: Any, sources: SourceResolver, *taken: tuple[str, str]) -> list[str]:
    with pytest.raises(WorkflowError) as error:
        validate_workflow(json.dumps(data), sources, taken)
    return error.value.problems


def test_a_script_in_another_encoding_is_a_problem_beside_others() -> None:
    data = edit_workflow("actions", 2, "query", to="SELEC x FROM words")
    script = "name = 'Zoë'".encode("latin-1")
    for unreadable in (script, b"# coding: nonsense\n"):
        files = FILES | {"clean.py": unreadable}
        query, encoding = find_all_problems(data, SourceResolver(files.__getitem__, lambda _: top))
        assert query.startswith("/actions/2/query: expected a query")
        assert encoding.startswith("/actions/1: clean.py is not text in UTF-8")
    files = FILES | {"clean.py": b"# coding: latin-1\n" + script}
    validate_workflow(json.dumps(WORKFLOW), SourceResolver(files.__getitem__, lambda _: top))


def test_an_output_path_of_another_workflow_is_a_problem() -> None:
    sources = SourceResolver(FILES.__getitem__, lambda _: top)
    for path in ("/data/top", "/data/./top/", "/data", "/data/top/part"):
        (problem,) = find_all_problems(WORKFLOW, sources, ("other", path))
        assert problem.startswith("/actions/3/path: an output of workflow 'other' goes to the same directory")
    validate_workflow(json.dumps(WORKFLOW), sources, [("other", "/data/elsewhere"), ("words", "/data/top")])


def test_relevant_changes_affect_an_action_and_its_descendants() -> None:
    assert find_changed_actions(WORKFLOW, FILES | {"fetch": b"#!/bin/bash\n"}) == {"1", "2", "3", "4"}
    assert find_changed_actions(WORKFLOW, FILES | {"clean.py": b"print(1)"}) == {"2", "3", "4"}
    assert find_changed_actions(edit_workflow("actions", 2, "query", to="SELECT * FROM words")) == {"3", "4"}
    assert find_changed_actions(edit_workflow("actions", 3, "parameters", to={"n": 11})) == {"4"}
    assert find_changed_actions(edit_workflow("actions", 2, "version", to="2")) == {"3", "4"}


def test_a_forced_action_and_its_descendants_are_new() -> None:
    unforced = edit_workflow("actions", 2, "forceComputation", to=False)
    before, after = identify(unforced), identify(WORKFLOW)
    assert {i for i in before if before[i].identity != after[i].identity} == {"3", "4"}
