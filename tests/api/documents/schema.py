"""The published JSON Schema of one-shot workflows, built from the form that the parser checks."""

from __future__ import annotations

from tidemill.api.documents.form import ACTION, PARENT, TYPES, WORKFLOW, DocumentField, Schema


def build_schema() -> Schema:
    """Return the form as JSON Schema. It cannot express that ids are unique, known and without cycles."""
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
        "properties": {f.name: {**f.shape.schema, "description": f.description} for f in fields},
        "required": [f.name for f in fields if f.required],
        "additionalProperties": False,
    }
