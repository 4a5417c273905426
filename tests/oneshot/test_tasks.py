"""Actions as tasks, and what they are recognised by."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tests.oneshot.test_read import WORKFLOW, edited

from tidemill.model.task import Command, Function, Sql
from tidemill.oneshot import Sources, nodes_of, parsed
from tidemill.retain.memo import Named, named

FILES = {"fetch": b"#!/bin/sh\n", "clean.py": b"import sys\n\nprint(sys.argv)  # shown\n"}


def top(counts: Any, action_2: Any, n: int) -> Any:
    return counts.limit(n)


def names(data: Mapping[str, Any], files: Mapping[str, bytes] = FILES) -> dict[str, Named]:
    nodes = nodes_of(parsed(json.dumps(data)), Sources(files.__getitem__, {"reports:top": top}.__getitem__))
    return named(nodes, lambda _: None, {})


def changed(data: Mapping[str, Any], files: Mapping[str, bytes] = FILES) -> set[str]:
    """Which actions are no longer what they were."""
    before, after = names(WORKFLOW), names(data, files)
    return {i for i in before if before[i].identity != after[i].identity}


def test_each_kind_of_action_becomes_a_task() -> None:
    nodes = nodes_of(parsed(json.dumps(WORKFLOW)), Sources(FILES.__getitem__, lambda _: top))
    codes = [n.task.variant.code for n in nodes]
    assert [type(c) for c in codes] == [Command, Command, Sql, Function]
    assert isinstance(codes[1], Command)
    assert codes[1].argv == ("spark-submit", "clean.py")
    assert [r.argument for r in nodes[3].task.reads] == ["counts", "action_2"]
    assert nodes[3].task.retry.attempts == 3


def test_what_does_not_matter_does_not() -> None:
    assert changed(WORKFLOW) == set()
    assert changed(edited("name", to="other")) == set()
    assert changed(edited("actions", 0, "name", to="renamed")) == {"2", "3", "4"}  # it is read under that name
    assert changed(edited("actions", 3, "path", to="/elsewhere")) == set()
    assert changed(WORKFLOW, FILES | {"clean.py": b"import sys\nprint( sys.argv )"}) == set()
    query = "select word, COUNT(*) as n\nfrom words -- all\ngroup by word"
    assert changed(edited("actions", 2, "query", to=query)) == set()


def test_what_matters_changes_the_action_and_what_follows() -> None:
    assert changed(WORKFLOW, FILES | {"fetch": b"#!/bin/bash\n"}) == {"1", "2", "3", "4"}
    assert changed(WORKFLOW, FILES | {"clean.py": b"print(1)"}) == {"2", "3", "4"}
    assert changed(edited("actions", 2, "query", to="SELECT * FROM words")) == {"3", "4"}
    assert changed(edited("actions", 3, "parameters", to={"n": 11})) == {"4"}
    assert changed(edited("actions", 2, "version", to="2")) == {"3", "4"}


def test_force_makes_it_and_what_follows_new() -> None:
    calm = edited("actions", 2, "forceComputation", to=False)
    before, after = names(calm), names(WORKFLOW)
    assert {i for i in before if before[i].identity != after[i].identity} == {"3", "4"}
