"""The five rules that a one-shot workflow obeys, and what else its graph must not do. One rule a function.

Each is given a document of the right form, and yields JSON pointers with reasons.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from typing import Any

from tidemill.model.channel import valid_name

Found = Iterator[tuple[str, str]]


def id_of(value: str | float) -> str:
    """1, 1.0 and "1" are the same id."""
    return value if isinstance(value, str) else str(int(value))


def argument_of(parent: Mapping[str, Any], names: Mapping[str, str]) -> str:
    """The name under which a parent is read: as the action says, else the parent's own, else one made of its id."""
    said, own = parent.get("as"), names.get(id_of(parent["id"]), "")
    return said or (own if valid_name(own) else f"action_{id_of(parent['id'])}")


def at_least_one_action(data: Mapping[str, Any]) -> Found:
    if not data["actions"]:
        yield "/actions", "a workflow needs at least one action; found none"


def unique_ids(data: Mapping[str, Any]) -> Found:
    first: dict[str, int] = {}
    for at, action in enumerate(data["actions"]):
        known = first.setdefault(id_of(action["id"]), at)
        if known != at:
            yield f"/actions/{at}/id", f"the id {action['id']!r} is taken by /actions/{known}; give each its own"


def known_references(data: Mapping[str, Any]) -> Found:
    ids = {id_of(a["id"]) for a in data["actions"]}
    for pointer, reference in _references(data):
        if id_of(reference) not in ids:
            yield pointer, f"there is no action with id {reference!r}; the actions are {', '.join(sorted(ids))}"


def no_cycle(data: Mapping[str, Any]) -> Found:
    try:
        TopologicalSorter(_graph(data)).prepare()
    except CycleError as error:
        cycle = [str(i) for i in error.args[1]]
        at = [id_of(a["id"]) for a in data["actions"]].index(cycle[0])
        yield f"/actions/{at}/parentActions", f"an action cannot depend on itself, but {' → '.join(cycle)} goes round"


def start_before_end(data: Mapping[str, Any]) -> Found:
    graph, start, end = _graph(data), id_of(data["startActionId"]), id_of(data["endActionId"])
    if end != start and end in _ancestors(graph, start):
        yield "/endActionId", f"the end, action {end}, leads to the start, action {start}; they may be swapped"


def readable_parents(data: Mapping[str, Any]) -> Found:
    """Beyond the five: each parent is read under one name of its own."""
    names = {id_of(a["id"]): a["name"] for a in data["actions"]}
    for at, action in enumerate(data["actions"]):
        seen: set[str] = set()
        for n, parent in enumerate(action.get("parentActions", ())):
            name, pointer = argument_of(parent, names), f"/actions/{at}/parentActions/{n}"
            if not valid_name(name):
                yield f"{pointer}/as", f"{name!r} is no name; use letters, digits and underscores, no digit first"
            if name in seen or name == "output":
                yield pointer, f"the name {name!r} is taken; give this parent another with 'as'"
            seen.add(name)


RULES = (at_least_one_action, unique_ids, known_references, no_cycle, start_before_end, readable_parents)


def _references(data: Mapping[str, Any]) -> Iterator[tuple[str, str | float]]:
    yield "/startActionId", data["startActionId"]
    yield "/endActionId", data["endActionId"]
    for at, action in enumerate(data["actions"]):
        for n, parent in enumerate(action.get("parentActions", ())):
            yield f"/actions/{at}/parentActions/{n}/id", parent["id"]


def _graph(data: Mapping[str, Any]) -> dict[str, list[str]]:
    """The parents of each action."""
    graph: dict[str, list[str]] = {}
    for action in data["actions"]:
        graph.setdefault(id_of(action["id"]), []).extend(id_of(p["id"]) for p in action.get("parentActions", ()))
    return graph


def _ancestors(graph: Mapping[str, list[str]], start: str) -> set[str]:
    seen: set[str] = set()
    ahead = list(graph.get(start, ()))
    while ahead:
        at = ahead.pop()
        if at not in seen:
            seen.add(at)
            ahead += graph.get(at, ())
    return seen
