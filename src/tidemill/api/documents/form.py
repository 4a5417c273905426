"""The form of a one-shot workflow in JSON: every field, once. The parser and the published schema both follow it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Schema = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Shape:
    """What a value must be: in words, as a test, and as JSON Schema."""

    words: str
    fits: Callable[[Any], bool]
    schema: Schema


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and value != ""


def _is_integer(value: Any) -> bool:
    """JSON has one kind of number: 1.0 is an integer."""
    whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    return whole and not isinstance(value, bool)


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(v, str) for v in value)


def _is_count(value: Any) -> bool:
    return _is_integer(value) and value >= 1


def _is_id(value: Any) -> bool:
    return _is_text(value) or _is_integer(value)


TEXT = Shape("a string that is not empty", _is_text, {"type": "string", "minLength": 1})
TEXTS = Shape("a list of strings", _are_texts, {"type": "array", "items": {"type": "string"}})
SOME_TEXTS = Shape(
    "a list of at least one string",
    lambda v: _are_texts(v) and v != [],
    {"type": "array", "items": {"type": "string"}, "minItems": 1},
)
TRUTH = Shape("true or false", lambda v: isinstance(v, bool), {"type": "boolean"})
OBJECT = Shape("an object", lambda v: isinstance(v, dict), {"type": "object"})
LIST = Shape("a list", lambda v: isinstance(v, list), {"type": "array"})
COUNT = Shape("a whole number from 1 on", _is_count, {"type": "integer", "minimum": 1})
ID = Shape(
    "a whole number or a string that is not empty",
    _is_id,
    {"anyOf": [{"type": "integer"}, {"type": "string", "minLength": 1}]},
)


@dataclass(frozen=True, slots=True)
class Field:
    name: str
    shape: Shape
    about: str
    required: bool = False


WORKFLOW = (
    Field("name", TEXT, "What people call the workflow; submissions of one name follow each other.", True),
    Field("startActionId", ID, "The action with which it starts.", True),
    Field("endActionId", ID, "The action whose output it is for; it must not lead to the start.", True),
    Field("actions", LIST, "At least one action.", True),
)
PARENT = (
    Field("id", ID, "The id of an action.", True),
    Field("as", TEXT, "The name under which it is read; its own name if left out."),
)
ACTION = (
    Field("id", ID, "Unique in the workflow.", True),
    Field("name", TEXT, "For people; need not be unique.", True),
    Field("type", TEXT, "What kind of action it is.", True),
    Field("parentActions", LIST, "The actions whose outputs it reads, in the order in which it reads them."),
    Field("forceComputation", TRUTH, "Compute it, and what follows, even if the same was computed before."),
    Field("isManaged", TRUTH, "Tidemill decides where the output is and how long it stays; true if left out."),
    Field("path", TEXT, "Where to put the output if it is not managed."),
    Field("pinned", TRUTH, "Never evict the output: it stays until somebody unpins it."),
    Field("version", TEXT, "Change it when something changed that cannot be seen from here."),
    Field("deterministic", TRUTH, "Whether the same inputs always give the same output."),
    Field("parameters", OBJECT, "Passed to a function; part of what the output is known by for all."),
    Field("environment", TEXTS, "Names of environment variables that the output depends on."),
    Field("attempts", COUNT, "How often it is tried; 1 if left out."),
)
TYPES = {
    "command-line": (
        Field("command", SOME_TEXTS, "The program and its arguments; {name} is a parent's directory.", True),
        Field("files", TEXTS, "Files whose content the output depends on."),
    ),
    "pyspark-script": (
        Field("script", TEXT, "The path of a Python file, which spark-submit runs.", True),
        Field("arguments", TEXTS, "What it is given; {name} is a parent's directory."),
    ),
    "spark-sql": (Field("query", TEXT, "A SELECT whose tables are the parents.", True),),
    "python-function": (Field("function", TEXT, "module:name of a function of DataFrames.", True),),
}


def schema() -> Schema:
    """The form as JSON Schema. That ids are unique, known and without cycles is beyond it."""
    workflow = _object(WORKFLOW)
    actions = {"type": "array", "minItems": 1, "items": {"oneOf": [_action(name) for name in TYPES]}}
    workflow["properties"]["actions"] |= actions
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A one-shot workflow of Tidemill",
        **workflow,
    }


def _action(kind: str) -> Schema:
    form = _object((*ACTION, *TYPES[kind]))
    form["title"] = kind
    form["properties"]["type"] = {"const": kind}
    form["properties"]["parentActions"] |= {"items": _object(PARENT)}
    unmanaged = {"properties": {"isManaged": {"const": False}}, "required": ["isManaged"]}
    form |= {"if": unmanaged, "then": {"required": ["path"]}, "else": {"not": {"required": ["path"]}}}
    return form


def _object(fields: tuple[Field, ...]) -> Schema:
    return {
        "type": "object",
        "properties": {f.name: {**f.shape.schema, "description": f.about} for f in fields},
        "required": [f.name for f in fields if f.required],
        "additionalProperties": False,
    }
