"""One-shot workflows as JSON: what may be written, what is wrong with it, and which tasks it means."""

from tidemill.api.documents.parser import Problem, parsed, problems_in
from tidemill.api.documents.tasks import KINDS, OUTPUT, Sources, canonical, checked, nodes_of, task_of

__all__ = [
    "KINDS",
    "OUTPUT",
    "Problem",
    "Sources",
    "canonical",
    "checked",
    "nodes_of",
    "parsed",
    "problems_in",
    "task_of",
]
