"""Parses JSON to a validated one-shot workflow, or to all its problems.

The form of every field is checked; the rules about ids and paths apply to the well-formed fields, so that one problem
does not hide another.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from os.path import normpath
from typing import Any

from tidemill.api.documents.form import ACTION, PARENT, TYPES, WORKFLOW, DocumentField
from tidemill.api.documents.rules import RULES, choose_argument_name, find_overlapping_paths, to_id
from tidemill.errors import WorkflowError
from tidemill.model.action import Action, ActionParent, CommandLine, FunctionCall, OneShotWorkflow, Query, Script, Work

_NUL = re.compile(r"(?<!\\)(\\\\)*\\u0000")


@dataclass(frozen=True, slots=True)
class DocumentProblem:
    """A problem and its location: a JSON pointer (RFC 6901), empty for the document itself."""

    pointer: str
    reason: str

    def __str__(self) -> str:
        return f"{self.pointer or 'the document'}: {self.reason}"


def parse_workflow(text: str) -> OneShotWorkflow:
    """Parse the workflow of a JSON text; raises `WorkflowError` with every problem."""
    data = parse_json(text)
    problems = find_problems(data)
    if problems:
        raise WorkflowError([str(p) for p in problems])
    return _build_workflow(data)


def find_problems(
    data: Any, resolve: Callable[[str], str] = normpath, taken: Iterable[tuple[str, str]] = ()
) -> list[DocumentProblem]:
    """Return all problems of a document.

    `resolve` returns the canonical name of a directory; `taken` are workflows and the paths of their outputs.
    """
    valid, problems = check_form(data)
    paths = find_overlapping_paths(valid, resolve, taken)
    violations = [*(violation for rule in RULES for violation in rule(valid)), *paths]
    return [*problems, *(DocumentProblem(pointer, reason) for pointer, reason in violations)]


def find_valid_work(data: Any) -> Iterator[tuple[str, Work]]:
    """Yield the well-formed work of actions, with their JSON pointers, regardless of other problems."""
    valid, _ = check_form(data)
    for index, action in enumerate(valid.get("actions", ())):
        fields = TYPES.get(action.get("type"))
        if fields is not None and all(field.name in action for field in fields if field.required):
            yield f"/actions/{index}", _build_work(action)


def parse_json(text: str) -> Any:
    """Parse a JSON text; raises `WorkflowError` if it is invalid."""
    if _NUL.search(text):
        raise WorkflowError([r"it contains \u0000, which no path and no database can store; leave it out"])
    try:
        return json.loads(text, object_pairs_hook=_reject_duplicate_keys)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise WorkflowError([f"{where}: not JSON: {error.msg}; a comma after the last entry is not allowed"]) from error


def _reject_duplicate_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    counts = Counter(name for name, _ in pairs)
    duplicate = next((name for name, count in counts.items() if count > 1), None)
    if duplicate is not None:
        raise WorkflowError([f"the key {duplicate!r} occurs twice in one object; only one of the two would count"])
    return dict(pairs)


def check_form(data: Any) -> tuple[dict[str, Any], list[DocumentProblem]]:
    """Return the well-formed fields of the document, of its actions and of their parents; and all problems."""
    problems: list[DocumentProblem] = []
    valid = _check_object(data, WORKFLOW, "", problems)
    if "actions" in valid:
        valid["actions"] = [_check_action(a, f"/actions/{n}", problems) for n, a in enumerate(valid["actions"])]
    return valid, problems


def _check_action(action: Any, pointer: str, problems: list[DocumentProblem]) -> dict[str, Any]:
    kind = action.get("type") if isinstance(action, dict) else None
    if isinstance(kind, str) and kind and kind not in TYPES:
        suggestion = _format_suggestion(kind, [*TYPES])
        reason = f"expected one of {', '.join(TYPES)}, found {kind!r}{suggestion}"
        problems.append(DocumentProblem(f"{pointer}/type", reason))
        problems = []  # the fields of an unknown type are unknown
    valid = _check_object(action, (*ACTION, *TYPES.get(str(kind), ())), pointer, problems)
    if isinstance(action, dict):
        problems += _find_path_problems(action, pointer)
    parents = enumerate(valid.get("parentActions", ()))
    return valid | {
        "parentActions": [_check_object(p, PARENT, f"{pointer}/parentActions/{n}", problems) for n, p in parents]
    }


def _find_path_problems(action: Mapping[str, Any], pointer: str) -> Iterator[DocumentProblem]:
    if action.get("isManaged") is False and "path" not in action:
        yield DocumentProblem(pointer, "an output that is not managed needs a path; give one, or leave isManaged out")
    if action.get("isManaged") is not False and "path" in action:
        yield DocumentProblem(
            f"{pointer}/path", "only an output with isManaged false has a path; set that, or leave path out"
        )


def _check_object(
    value: Any, fields: Sequence[DocumentField], pointer: str, problems: list[DocumentProblem]
) -> dict[str, Any]:
    """Return the well-formed fields of an object, and add the problems of the others."""
    if not isinstance(value, dict):
        problems.append(DocumentProblem(pointer, f"expected an object, found {_format_value(value)}"))
        return {}
    names = [field.name for field in fields]
    for name in (name for name in value if name not in names):
        reason = f"there is no field {name!r} here{_format_suggestion(name, names)}"
        problems.append(DocumentProblem(f"{pointer}/{name.replace('~', '~0').replace('/', '~1')}", reason))
    valid = {}
    for field in fields:
        expected = f"expected {field.shape.description}"
        if field.name not in value:
            if field.required:
                problems.append(DocumentProblem(pointer, f"the field {field.name!r} is missing; {expected}"))
        elif field.shape.matches(value[field.name]):
            valid[field.name] = value[field.name]
        else:
            reason = f"{expected}, found {_format_value(value[field.name])}"
            problems.append(DocumentProblem(f"{pointer}/{field.name}", reason))
    return valid


def _format_suggestion(name: str, allowed: Sequence[str]) -> str:
    close = get_close_matches(name, allowed, n=1)
    return f"; did you mean {close[0]!r}?" if close else f"; expected one of {', '.join(allowed)}"


def _format_value(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _build_workflow(data: Mapping[str, Any]) -> OneShotWorkflow:
    names = {to_id(a["id"]): a["name"] for a in data["actions"]}
    actions = tuple(_build_action(a, names) for a in data["actions"])
    return OneShotWorkflow(data["name"], to_id(data["startActionId"]), to_id(data["endActionId"]), actions)


def _build_action(data: Mapping[str, Any], names: Mapping[str, str]) -> Action:
    return Action(
        id=to_id(data["id"]),
        name=data["name"],
        work=_build_work(data),
        parents=tuple(
            ActionParent(to_id(p["id"]), choose_argument_name(p, names)) for p in data.get("parentActions", ())
        ),
        force=data.get("forceComputation", False),
        path=data.get("path"),
        pinned=data.get("pinned", False),
        version=data.get("version"),
        deterministic=data.get("deterministic"),
        parameters=data.get("parameters", {}),
        environment=tuple(data.get("environment", ())),
        attempts=int(data.get("attempts", 1)),
    )


def _build_work(data: Mapping[str, Any]) -> Work:
    match data["type"]:
        case "command-line":
            return CommandLine(tuple(data["command"]), tuple(data.get("files", ())))
        case "pyspark-script":
            return Script(data["script"], tuple(data.get("arguments", ())))
        case "spark-sql":
            return Query(data["query"])
        case _:
            return FunctionCall(data["function"])
