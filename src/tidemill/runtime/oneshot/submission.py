"""Submitting one-shot workflows: from JSON to a submission whose actions have names and, where need be, runs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tidemill.api.documents import KINDS, Sources, checked, nodes_of
from tidemill.errors import Conflict
from tidemill.model.action import Action, OneShot
from tidemill.model.submission import Handed, Submission, Wish
from tidemill.retention.memo import Named, Node, named
from tidemill.runtime.oneshot.dataset_catalog import Ledger

_TRIES = 5
"""Times that actions are named, if meanwhile others force results under the same names."""


@dataclass(frozen=True, slots=True)
class Submitter:
    """Takes in workflows. `surroundings` are the environment variables that actions may depend on."""

    ledger: Ledger
    sources: Sources
    surroundings: Mapping[str, str]

    def submit(self, text: str, user: str) -> Submission:
        """Check a workflow, name what it makes, and take it in; raises `WorkflowError` with every problem."""
        workflow = checked(text, self.sources)
        nodes, document = nodes_of(workflow, self.sources), json.loads(text)
        for _ in range(_TRIES - 1):
            try:
                return self._hand_in(workflow, nodes, document, user)
            except Conflict:  # names that were right a moment ago are outdated
                continue
        return self._hand_in(workflow, nodes, document, user)

    def _hand_in(self, workflow: OneShot, nodes: Sequence[Node], document: dict[str, object], user: str) -> Submission:
        names = self._names(nodes)
        kept = workflow.kept()
        wishes = tuple(_wish(a, names, keep=a.id in kept) for a in workflow.in_order())
        return self.ledger.submission(self.ledger.submit(Handed(workflow.name, user, document, wishes)))

    def _names(self, nodes: Sequence[Node]) -> dict[str, Named]:
        """What each makes. That two descriptions share an identity is so rare that it is looked for afterwards."""
        generations = self.ledger.generations()
        names = named(nodes, lambda _: None, generations, self.surroundings)
        recorded = self.ledger.descriptions(n.identity for n in names.values())
        if all(recorded.get(n.identity, n.description) == n.description for n in names.values()):
            return names
        return named(nodes, lambda i: self.ledger.descriptions([i]).get(i), generations, self.surroundings)


def _wish(action: Action, names: Mapping[str, Named], *, keep: bool) -> Wish:
    name = names[action.id]
    return Wish(
        key=action.id,
        name=action.name,
        kind=KINDS[type(action.work)],
        identity=name.identity,
        plain=name.plain,
        generation=name.generation,
        description=name.description,
        forced=name.forced,
        parents=tuple(names[p.id].identity for p in action.parents),
        keep=keep,
        pinned=action.pinned,
        path=action.path,
        attempts=action.attempts,
    )
