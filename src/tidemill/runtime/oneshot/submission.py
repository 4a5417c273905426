"""Submits one-shot workflows: turns JSON into a submission whose actions have identities and, if needed, runs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tidemill.api.documents import KINDS, SourceResolver, build_nodes, validate_workflow
from tidemill.errors import Conflict
from tidemill.model.action import Action, OneShotWorkflow
from tidemill.model.submission import ActionRequest, Submission, SubmissionRequest
from tidemill.ports.datasets import DatasetCatalog
from tidemill.retention.memo import IdentifiedNode, MemoNode, identify_nodes

_ATTEMPTS = 5
"""Attempts to identify the actions while others force results under the same identities."""


@dataclass(frozen=True, slots=True)
class Submitter:
    """Submits workflows. `environment` are the environment variables that actions may depend on."""

    datasets: DatasetCatalog
    sources: SourceResolver
    environment: Mapping[str, str]

    def submit_workflow(self, text: str, user: str) -> Submission:
        """Validate a workflow, identify its outputs, and record it; raises `WorkflowError` with every problem."""
        workflow = validate_workflow(text, self.sources)
        nodes, document = build_nodes(workflow, self.sources), json.loads(text)
        for _ in range(_ATTEMPTS - 1):
            try:
                return self._record_submission(workflow, nodes, document, user)
            except Conflict:  # the identities became outdated meanwhile
                continue
        return self._record_submission(workflow, nodes, document, user)

    def _record_submission(
        self, workflow: OneShotWorkflow, nodes: Sequence[MemoNode], document: dict[str, object], user: str
    ) -> Submission:
        names = self._identify_nodes(nodes)
        permanent = workflow.list_permanent_actions()
        requests = tuple(_build_request(a, names, keep=a.id in permanent) for a in workflow.sort_actions())
        return self.datasets.read_submission(
            self.datasets.submit_workflow(SubmissionRequest(workflow.name, user, document, requests))
        )

    def _identify_nodes(self, nodes: Sequence[MemoNode]) -> dict[str, IdentifiedNode]:
        """Identify the output of each node. A collision of identities is so rare that it is checked afterwards."""
        generations = self.datasets.read_generations()
        names = identify_nodes(nodes, lambda _: None, generations, self.environment)
        recorded = self.datasets.read_descriptions(n.identity for n in names.values())
        if all(recorded.get(n.identity, n.description) == n.description for n in names.values()):
            return names
        return identify_nodes(
            nodes, lambda i: self.datasets.read_descriptions([i]).get(i), generations, self.environment
        )


def _build_request(action: Action, names: Mapping[str, IdentifiedNode], *, keep: bool) -> ActionRequest:
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
        is_leaf=keep,
        pinned=action.pinned,
        path=action.path,
        attempts=action.attempts,
    )
