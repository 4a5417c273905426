"""The five rules that a one-shot workflow obeys, and what else its graph must not do. One rule a function.

Each is given a document of which every field that is there has the right form, and yields JSON pointers with reasons.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import PurePath
from typing import Any

from tidemill.model.channel import is_valid_name

Found = Iterator[tuple[str, str]]


def to_id(value: str | float) -> str:
    """1, 1.0 and "1" are the same id."""
    return value if isinstance(value, str) else str(int(value))


def choose_argument_name(parent: Mapping[str, Any], names: Mapping[str, str]) -> str:
    """The name under which a parent is read: as the action says, else the parent's own, else one made of its id."""
    said, own = parent.get("as"), names.get(to_id(parent["id"]), "")
    return said or (own if is_valid_name(own) else f"action_{to_id(parent['id'])}")


def find_missing_actions(data: Mapping[str, Any]) -> Found:
    if data.get("actions") == []:
        yield "/actions", "a workflow needs at least one action; found none"


def find_duplicate_ids(data: Mapping[str, Any]) -> Found:
    first: dict[str, int] = {}
    for at, action in _list_actions(data):
        known = first.setdefault(to_id(action["id"]), at)
        if known != at:
            yield f"/actions/{at}/id", f"the id {action['id']!r} is taken by /actions/{known}; give each its own"


def find_unknown_references(data: Mapping[str, Any]) -> Found:
    ids = {to_id(a["id"]) for _, a in _list_actions(data)}
    if len(list(_list_actions(data))) < len(data.get("actions", ())):
        return  # any reference may mean an action whose id cannot be read
    for pointer, reference in _list_references(data):
        if to_id(reference) not in ids:
            yield pointer, f"there is no action with id {reference!r}; the actions are {', '.join(sorted(ids))}"


def find_cycle(data: Mapping[str, Any]) -> Found:
    try:
        TopologicalSorter(_build_graph(data)).prepare()
    except CycleError as error:
        cycle = [str(i) for i in error.args[1]]
        at = next(at for at, a in _list_actions(data) if to_id(a["id"]) == cycle[0])
        yield f"/actions/{at}/parentActions", f"an action cannot depend on itself, but {' → '.join(cycle)} goes round"


def find_reversed_ends(data: Mapping[str, Any]) -> Found:
    if "startActionId" not in data or "endActionId" not in data:
        return
    graph, start, end = _build_graph(data), to_id(data["startActionId"]), to_id(data["endActionId"])
    if end != start and end in _find_ancestors(graph, start):
        yield "/endActionId", f"the end, action {end}, leads to the start, action {start}; they may be swapped"


def find_unreadable_parents(data: Mapping[str, Any]) -> Found:
    """Beyond the five: each parent is read under one name of its own."""
    names = {to_id(a["id"]): a.get("name", "") for _, a in _list_actions(data)}
    for at, action in enumerate(data.get("actions", ())):
        seen: set[str] = set()
        for n, parent in _list_parents(action):
            name, pointer = choose_argument_name(parent, names), f"/actions/{at}/parentActions/{n}"
            if not is_valid_name(name):
                yield f"{pointer}/as", f"{name!r} is no name; use letters, digits and underscores, no digit first"
            if name in seen or name == "output":
                yield pointer, f"the name {name!r} is taken; give this parent another with 'as'"
            seen.add(name)


RULES = (
    find_missing_actions,
    find_duplicate_ids,
    find_unknown_references,
    find_cycle,
    find_reversed_ends,
    find_unreadable_parents,
)


def find_overlapping_paths(data: Mapping[str, Any], resolve: Callable[[str], str]) -> Found:
    """Beyond the five: no output is put where another one of the workflow is, or inside of it."""
    taken: dict[PurePath, int] = {}
    for at, action in enumerate(data.get("actions", ())):
        if action.get("isManaged") is not False or "path" not in action:
            continue
        path = PurePath(resolve(action["path"]))
        other = next((n for p, n in taken.items() if p.is_relative_to(path) or path.is_relative_to(p)), None)
        if other is not None:
            yield (
                f"/actions/{at}/path",
                f"the output of /actions/{other} goes to the same directory, or into one inside of it, and one would "
                "replace the other; give each a path of its own",
            )
        taken.setdefault(path, at)


def _list_actions(data: Mapping[str, Any]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """The actions that have an id, with their positions."""
    return ((at, action) for at, action in enumerate(data.get("actions", ())) if "id" in action)


def _list_parents(action: Mapping[str, Any]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    return ((n, parent) for n, parent in enumerate(action.get("parentActions", ())) if "id" in parent)


def _list_references(data: Mapping[str, Any]) -> Iterator[tuple[str, str | float]]:
    for end in ("startActionId", "endActionId"):
        if end in data:
            yield f"/{end}", data[end]
    for at, action in enumerate(data.get("actions", ())):
        for n, parent in _list_parents(action):
            yield f"/actions/{at}/parentActions/{n}/id", parent["id"]


def _build_graph(data: Mapping[str, Any]) -> dict[str, list[str]]:
    """The parents of each action."""
    graph: dict[str, list[str]] = {}
    for _, action in _list_actions(data):
        graph.setdefault(to_id(action["id"]), []).extend(to_id(p["id"]) for _, p in _list_parents(action))
    return graph


def _find_ancestors(graph: Mapping[str, list[str]], start: str) -> set[str]:
    seen: set[str] = set()
    ahead = list(graph.get(start, ()))
    while ahead:
        at = ahead.pop()
        if at not in seen:
            seen.add(at)
            ahead += graph.get(at, ())
    return seen
