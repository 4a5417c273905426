"""One-shot workflows as JSON: their form, their validation, and their tasks."""

from tidemill.api.documents.parser import DocumentProblem, find_problems, parse_workflow
from tidemill.api.documents.tasks import (
    KINDS,
    OUTPUT,
    SourceResolver,
    build_nodes,
    build_task,
    to_canonical_task,
    validate_workflow,
)

__all__ = [
    "KINDS",
    "OUTPUT",
    "DocumentProblem",
    "SourceResolver",
    "build_nodes",
    "build_task",
    "find_problems",
    "parse_workflow",
    "to_canonical_task",
    "validate_workflow",
]
