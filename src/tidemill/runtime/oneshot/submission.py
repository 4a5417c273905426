"""Submits one-shot workflows: turns JSON into a submission whose actions have identities and, if needed, runs."""

import json
from collections.abc import Mapping, Sequence

from tidemill.api.documents.tasks import KINDS, SourceResolver, build_nodes, validate_workflow
from tidemill.errors import Conflict
from tidemill.model.action import Action
from tidemill.model.submission import ActionRequest, SubmissionRequest
from tidemill.ports.datasets import DatasetCatalog
from tidemill.retention.memo import IdentifiedNode, MemoNode, identify_nodes

_ATTEMPTS = 5
"""Attempts to identify the actions while others force results under the same identities."""


def submit_workflow(
    datasets: DatasetCatalog, sources: SourceResolver, environment: Mapping[str, str], text: str, user: str
) -> int:
    """Validate a workflow, identify its outputs, and record it; returns the submission's number.

    `environment` are the environment variables that actions may depend on. Raises `WorkflowError` with every problem.
    """
    workflow = validate_workflow(text, sources, datasets.list_output_paths())
    nodes, document = build_nodes(workflow, sources), json.loads(text)
    permanent = workflow.list_permanent_actions()
    for attempt in range(1, _ATTEMPTS + 1):
        names = _identify_nodes(datasets, nodes, environment)
        requests = tuple(_build_request(a, names, is_leaf=a.id in permanent) for a in workflow.sort_actions())
        try:
            return datasets.submit_workflow(SubmissionRequest(workflow.name, user, document, requests))
        except Conflict:  # the identities became outdated meanwhile
            if attempt == _ATTEMPTS:
                raise
    raise AssertionError("the last attempt returns or raises")


def _identify_nodes(
    datasets: DatasetCatalog, nodes: Sequence[MemoNode], environment: Mapping[str, str]
) -> dict[str, IdentifiedNode]:
    """Identify the output of each node. A collision of identities is so rare that it is checked afterwards."""
    generations = datasets.read_generations()
    names = identify_nodes(nodes, lambda _: None, generations, environment)
    recorded = datasets.read_descriptions(n.identity for n in names.values())
    if all(recorded.get(n.identity, n.description) == n.description for n in names.values()):
        return names
    return identify_nodes(nodes, lambda i: datasets.read_descriptions([i]).get(i), generations, environment)


def _build_request(action: Action, names: Mapping[str, IdentifiedNode], *, is_leaf: bool) -> ActionRequest:
    name = names[action.id]
    return ActionRequest(
        key=action.id,
        name=action.name,
        kind=KINDS[type(action.work)],
        identity=name.identity,
        unforced_identity=name.plain,
        generation=name.generation,
        description=name.description,
        forced=name.forced,
        parents=tuple(names[p.id].identity for p in action.parents),
        is_leaf=is_leaf,
        pinned=action.pinned,
        path=action.path,
        attempts=action.attempts,
    )
