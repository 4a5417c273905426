"""The form of a one-shot workflow in JSON, defined once for the parser and the published schema (tests build it)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Schema = dict[str, Any]


@dataclass(frozen=True, slots=True)
class FieldType:
    """The type of a value: in words, as a predicate, and as JSON Schema."""

    description: str
    matches: Callable[[Any], bool]
    schema: Schema


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and value != ""


def _is_integer(value: Any) -> bool:
    """JSON has one type of number: 1.0 is an integer."""
    is_integral = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    return is_integral and not isinstance(value, bool)


def _is_text_list(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(v, str) for v in value)


TEXT = FieldType("a string that is not empty", _is_text, {"type": "string", "minLength": 1})
TEXTS = FieldType("a list of strings", _is_text_list, {"type": "array", "items": {"type": "string"}})
SOME_TEXTS = FieldType(
    "a list of at least one string",
    lambda v: _is_text_list(v) and v != [],
    {"type": "array", "items": {"type": "string"}, "minItems": 1},
)
BOOLEAN = FieldType("true or false", lambda v: isinstance(v, bool), {"type": "boolean"})
OBJECT = FieldType("an object", lambda v: isinstance(v, dict), {"type": "object"})
LIST = FieldType("a list", lambda v: isinstance(v, list), {"type": "array"})
COUNT = FieldType("an integer of at least 1", lambda v: _is_integer(v) and v >= 1, {"type": "integer", "minimum": 1})
ID = FieldType(
    "an integer or a string that is not empty",
    lambda v: _is_text(v) or _is_integer(v),
    {"anyOf": [{"type": "integer"}, {"type": "string", "minLength": 1}]},
)


@dataclass(frozen=True, slots=True)
class DocumentField:
    name: str
    shape: FieldType
    description: str
    required: bool = False


WORKFLOW = (
    DocumentField("name", TEXT, "The workflow's name; submissions of one name form a series.", True),
    DocumentField("startActionId", ID, "The first action.", True),
    DocumentField("endActionId", ID, "The action with the final output; it must not lead to the start.", True),
    DocumentField("actions", LIST, "At least one action.", True),
)
PARENT = (
    DocumentField("id", ID, "The id of an action.", True),
    DocumentField("as", TEXT, "The name under which it is read; by default its own name."),
)
ACTION = (
    DocumentField("id", ID, "Unique in the workflow.", True),
    DocumentField("name", TEXT, "For people; need not be unique.", True),
    DocumentField("type", TEXT, "The type of the action.", True),
    DocumentField("parentActions", LIST, "The actions whose outputs it reads, in the order in which it reads them."),
    DocumentField("forceComputation", BOOLEAN, "Compute it and its descendants, even if the same was computed before."),
    DocumentField(
        "isManaged", BOOLEAN, "Tidemill manages the location and the retention of the output; true by default."
    ),
    DocumentField("path", TEXT, "Location of an output that is not managed."),
    DocumentField("pinned", BOOLEAN, "Never evict the output: it stays until it is unpinned."),
    DocumentField("version", TEXT, "Change it when a dependency changed that Tidemill cannot see."),
    DocumentField("deterministic", BOOLEAN, "Whether the same inputs always give the same output."),
    DocumentField("parameters", OBJECT, "Passed to a function; for all types, part of the output's identity."),
    DocumentField("environment", TEXTS, "Names of environment variables that the output depends on."),
    DocumentField("attempts", COUNT, "Maximum number of attempts; 1 by default."),
)
TYPES = {
    "command-line": (
        DocumentField("command", SOME_TEXTS, "The program and its arguments; {name} is a parent's directory.", True),
        DocumentField("files", TEXTS, "Files whose content the output depends on."),
    ),
    "pyspark-script": (
        DocumentField("script", TEXT, "The path of a Python file, which spark-submit runs.", True),
        DocumentField("arguments", TEXTS, "Its arguments; {name} is a parent's directory."),
    ),
    "spark-sql": (DocumentField("query", TEXT, "A SELECT whose tables are the parents.", True),),
    "python-function": (DocumentField("function", TEXT, "module:name of a function of DataFrames.", True),),
}
