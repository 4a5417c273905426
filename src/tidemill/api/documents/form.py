"""The form of a one-shot workflow in JSON: every field, once. The parser and the published schema both follow it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Schema = dict[str, Any]


@dataclass(frozen=True, slots=True)
class FieldType:
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


def _is_text_list(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(v, str) for v in value)


def _is_count(value: Any) -> bool:
    return _is_integer(value) and value >= 1


def _is_id(value: Any) -> bool:
    return _is_text(value) or _is_integer(value)


TEXT = FieldType("a string that is not empty", _is_text, {"type": "string", "minLength": 1})
TEXTS = FieldType("a list of strings", _is_text_list, {"type": "array", "items": {"type": "string"}})
SOME_TEXTS = FieldType(
    "a list of at least one string",
    lambda v: _is_text_list(v) and v != [],
    {"type": "array", "items": {"type": "string"}, "minItems": 1},
)
TRUTH = FieldType("true or false", lambda v: isinstance(v, bool), {"type": "boolean"})
OBJECT = FieldType("an object", lambda v: isinstance(v, dict), {"type": "object"})
LIST = FieldType("a list", lambda v: isinstance(v, list), {"type": "array"})
COUNT = FieldType("a whole number from 1 on", _is_count, {"type": "integer", "minimum": 1})
ID = FieldType(
    "a whole number or a string that is not empty",
    _is_id,
    {"anyOf": [{"type": "integer"}, {"type": "string", "minLength": 1}]},
)


@dataclass(frozen=True, slots=True)
class DocumentField:
    name: str
    shape: FieldType
    about: str
    required: bool = False


WORKFLOW = (
    DocumentField("name", TEXT, "What people call the workflow; submissions of one name follow each other.", True),
    DocumentField("startActionId", ID, "The action with which it starts.", True),
    DocumentField("endActionId", ID, "The action whose output it is for; it must not lead to the start.", True),
    DocumentField("actions", LIST, "At least one action.", True),
)
PARENT = (
    DocumentField("id", ID, "The id of an action.", True),
    DocumentField("as", TEXT, "The name under which it is read; its own name if left out."),
)
ACTION = (
    DocumentField("id", ID, "Unique in the workflow.", True),
    DocumentField("name", TEXT, "For people; need not be unique.", True),
    DocumentField("type", TEXT, "What kind of action it is.", True),
    DocumentField("parentActions", LIST, "The actions whose outputs it reads, in the order in which it reads them."),
    DocumentField("forceComputation", TRUTH, "Compute it, and what follows, even if the same was computed before."),
    DocumentField("isManaged", TRUTH, "Tidemill decides where the output is and how long it stays; true if left out."),
    DocumentField("path", TEXT, "Where to put the output if it is not managed."),
    DocumentField("pinned", TRUTH, "Never evict the output: it stays until somebody unpins it."),
    DocumentField("version", TEXT, "Change it when something changed that cannot be seen from here."),
    DocumentField("deterministic", TRUTH, "Whether the same inputs always give the same output."),
    DocumentField("parameters", OBJECT, "Passed to a function; part of what the output is known by for all."),
    DocumentField("environment", TEXTS, "Names of environment variables that the output depends on."),
    DocumentField("attempts", COUNT, "How often it is tried; 1 if left out."),
)
TYPES = {
    "command-line": (
        DocumentField("command", SOME_TEXTS, "The program and its arguments; {name} is a parent's directory.", True),
        DocumentField("files", TEXTS, "Files whose content the output depends on."),
    ),
    "pyspark-script": (
        DocumentField("script", TEXT, "The path of a Python file, which spark-submit runs.", True),
        DocumentField("arguments", TEXTS, "What it is given; {name} is a parent's directory."),
    ),
    "spark-sql": (DocumentField("query", TEXT, "A SELECT whose tables are the parents.", True),),
    "python-function": (DocumentField("function", TEXT, "module:name of a function of DataFrames.", True),),
}


def build_schema() -> Schema:
    """The form as JSON Schema. That ids are unique, known and without cycles is beyond it."""
    workflow = _build_object_schema(WORKFLOW)
    actions = {"type": "array", "minItems": 1, "items": {"oneOf": [_build_action_schema(name) for name in TYPES]}}
    workflow["properties"]["actions"] |= actions
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A one-shot workflow of Tidemill",
        **workflow,
    }


def _build_action_schema(kind: str) -> Schema:
    form = _build_object_schema((*ACTION, *TYPES[kind]))
    form["title"] = kind
    form["properties"]["type"] = {"const": kind}
    form["properties"]["parentActions"] |= {"items": _build_object_schema(PARENT)}
    unmanaged = {"properties": {"isManaged": {"const": False}}, "required": ["isManaged"]}
    form |= {"if": unmanaged, "then": {"required": ["path"]}, "else": {"not": {"required": ["path"]}}}
    return form


def _build_object_schema(fields: tuple[DocumentField, ...]) -> Schema:
    return {
        "type": "object",
        "properties": {f.name: {**f.shape.schema, "description": f.about} for f in fields},
        "required": [f.name for f in fields if f.required],
        "additionalProperties": False,
    }
