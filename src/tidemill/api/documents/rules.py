"""The five rules of one-shot workflows, and further constraints on their graphs. One function per rule.

Each gets a document with only well-formed fields, and yields JSON pointers with reasons.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import PurePath
from typing import Any

from tidemill.model.channel import is_valid_name
from tidemill.model.query import find_excess, find_syntax_error

RuleViolations = Iterator[tuple[str, str]]

_MAX_SHOWN = 20  # ids in a message: it is repeated for each problem


def to_id(value: str | float) -> str:
    """Return an id as text: 1, 1.0 and "1" are the same id."""
    return value if isinstance(value, str) else str(int(value))


def choose_argument_name(parent: Mapping[str, Any], names: Mapping[str, str]) -> str:
    """Return the name under which a parent is read: the declared one, else the parent's name, else one from its id."""
    declared, parent_name = parent.get("as"), names.get(to_id(parent["id"]), "")
    return declared or (parent_name if is_valid_name(parent_name) else f"action_{to_id(parent['id'])}")


def find_missing_actions(data: Mapping[str, Any]) -> RuleViolations:
    if data.get("actions") == []:
        yield "/actions", "a workflow needs at least one action; found none"


def find_duplicate_ids(data: Mapping[str, Any]) -> RuleViolations:
    first: dict[str, int] = {}
    for index, action in _list_actions(data):
        first_index = first.setdefault(to_id(action["id"]), index)
        if first_index != index:
            yield f"/actions/{index}/id", f"the id {action['id']!r} is used by /actions/{first_index}; use another one"


def find_unknown_references(data: Mapping[str, Any]) -> RuleViolations:
    ids = {to_id(a["id"]) for _, a in _list_actions(data)}
    if len(list(_list_actions(data))) < len(data.get("actions", ())):
        return  # any reference may refer to an action whose id is malformed
    for pointer, reference in _list_references(data):
        if to_id(reference) not in ids:
            yield pointer, f"there is no action with id {reference!r}; the actions are {_format_ids(ids)}"


def _format_ids(ids: set[str]) -> str:
    shown = ", ".join(sorted(ids)[:_MAX_SHOWN])
    return shown if len(ids) <= _MAX_SHOWN else f"{shown} and {len(ids) - _MAX_SHOWN} others"


def find_cycle(data: Mapping[str, Any]) -> RuleViolations:
    try:
        TopologicalSorter(_build_graph(data)).prepare()
    except CycleError as error:
        cycle = [str(i) for i in error.args[1]]
        index = next(index for index, a in _list_actions(data) if to_id(a["id"]) == cycle[0])
        yield (
            f"/actions/{index}/parentActions",
            f"an action cannot depend on itself, but {' → '.join(cycle)} is a cycle",
        )


def find_reversed_ends(data: Mapping[str, Any]) -> RuleViolations:
    if "startActionId" not in data or "endActionId" not in data:
        return
    graph, start, end = _build_graph(data), to_id(data["startActionId"]), to_id(data["endActionId"])
    if end != start and end in _find_ancestors(graph, start):
        yield "/endActionId", f"the end, action {end}, leads to the start, action {start}; they may be swapped"


def find_unreadable_parents(data: Mapping[str, Any]) -> RuleViolations:
    """Beyond the five: each parent needs a valid, unique name."""
    names = {to_id(a["id"]): a.get("name", "") for _, a in _list_actions(data)}
    for index, action in enumerate(data.get("actions", ())):
        seen: set[str] = set()
        for n, parent in _list_parents(action):
            name, pointer = choose_argument_name(parent, names), f"/actions/{index}/parentActions/{n}"
            if not is_valid_name(name):
                yield (
                    f"{pointer}/as",
                    f"{name!r} is not a valid name; use letters, digits and underscores, no digit first",
                )
            if name in seen or name == "output":
                yield pointer, f"the name {name!r} is already used; give this parent another with 'as'"
            seen.add(name)


def find_invalid_queries(data: Mapping[str, Any]) -> RuleViolations:
    for index, action in enumerate(data.get("actions", ())):
        problem = find_excess(action["query"]) or find_syntax_error(action["query"]) if "query" in action else None
        if problem is not None:
            yield f"/actions/{index}/query", problem


RULES = (
    find_missing_actions,
    find_duplicate_ids,
    find_unknown_references,
    find_cycle,
    find_reversed_ends,
    find_unreadable_parents,
    find_invalid_queries,
)


def find_overlapping_paths(
    data: Mapping[str, Any], resolve: Callable[[str], str], taken: Iterable[tuple[str, str]]
) -> RuleViolations:
    """Beyond the five: no output is placed in or above the directory of another output of any workflow."""
    others = ((workflow, path) for workflow, path in taken if workflow != data.get("name"))
    used = {PurePath(resolve(path)): f"an output of workflow {workflow!r}" for workflow, path in others}
    for index, action in enumerate(data.get("actions", ())):
        if action.get("isManaged") is not False or "path" not in action:
            continue
        path = PurePath(resolve(action["path"]))
        other = next((o for p, o in used.items() if p.is_relative_to(path) or path.is_relative_to(p)), None)
        if other is not None:
            yield (
                f"/actions/{index}/path",
                f"{other} goes to the same directory, or one inside of it, and one would replace the other; "
                "give each a separate path",
            )
        used.setdefault(path, f"the output of /actions/{index}")


def _list_actions(data: Mapping[str, Any]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Return the actions that have an id, with their positions."""
    return ((index, action) for index, action in enumerate(data.get("actions", ())) if "id" in action)


def _list_parents(action: Mapping[str, Any]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    return ((n, parent) for n, parent in enumerate(action.get("parentActions", ())) if "id" in parent)


def _list_references(data: Mapping[str, Any]) -> Iterator[tuple[str, str | float]]:
    for field in ("startActionId", "endActionId"):
        if field in data:
            yield f"/{field}", data[field]
    for index, action in enumerate(data.get("actions", ())):
        for n, parent in _list_parents(action):
            yield f"/actions/{index}/parentActions/{n}/id", parent["id"]


def _build_graph(data: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the parents of each action."""
    graph: dict[str, list[str]] = {}
    for _, action in _list_actions(data):
        graph.setdefault(to_id(action["id"]), []).extend(to_id(p["id"]) for _, p in _list_parents(action))
    return graph


def _find_ancestors(graph: Mapping[str, list[str]], start: str) -> set[str]:
    seen: set[str] = set()
    pending = list(graph.get(start, ()))
    while pending:
        action = pending.pop()
        if action not in seen:
            seen.add(action)
            pending += graph.get(action, ())
    return seen
