"""Memoization: whether a requested output was computed before, and why or why not."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from tidemill.model.code import EMPTY_MAPPING, Json
from tidemill.model.description import DescriptionChange, compute_dataset_identity, describe_output, diff_descriptions
from tidemill.model.identity import Identity
from tidemill.model.states import PRODUCING_STATES, READABLE_STATES, DatasetState
from tidemill.model.submission import ActionRequest
from tidemill.model.task import Task


@dataclass(frozen=True, slots=True)
class MemoNode:
    """A task of a submitted graph. `parents` are in port order, and come before it."""

    key: str
    task: Task
    parents: tuple[str, ...] = ()
    force: bool = False
    output: str = ""  # one of the task's outputs; empty: its only one


@dataclass(frozen=True, slots=True)
class IdentifiedNode:
    """A node with the identity of its output: `plain` is the identity that it would have if nothing was ever forced."""

    key: str
    identity: Identity
    plain: Identity
    generation: int
    description: Json
    forced: bool


DescriptionLookup = Callable[[Identity], Json | None]
"""Returns the description that the catalog has under an identity."""


def identify_nodes(
    nodes: Iterable[MemoNode],
    recorded: DescriptionLookup,
    generations: Mapping[Identity, int],
    environment: Mapping[str, str] = EMPTY_MAPPING,
) -> dict[str, IdentifiedNode]:
    """Compute the identity of each node's output.

    `generations` has the newest generation of each plain identity. A forced or nondeterministic node begins the next
    one. So all its descendants are new as well, and a later submission of the same finds them all.
    """
    identified: dict[str, IdentifiedNode] = {}
    for node in nodes:
        inputs = [[identified[p].identity] for p in node.parents]
        forced = node.force or not node.task.is_repeatable
        description = _resolve_collision(describe_output(node.task, node.output, inputs, environment), recorded)
        plain = compute_dataset_identity(description)
        generation = generations.get(plain, 0) + forced
        if generation:
            description = _resolve_collision(description | {"generation": generation}, recorded)
        identity = compute_dataset_identity(description)
        identified[node.key] = IdentifiedNode(node.key, identity, plain, generation, description, forced)
    return identified


def _resolve_collision(description: Json, recorded: DescriptionLookup) -> Json:
    """Return the description with a unique identity: a colliding one gets a number."""
    candidate, number = description, 0
    while recorded(compute_dataset_identity(candidate)) not in (None, candidate):
        number += 1
        candidate = description | {"collision": number}
    return candidate


class ReuseVerdict(StrEnum):
    REUSED = "reused"
    AWAITED = "awaited"  # another run computes it
    FORCED = "forced"  # by its user, or its result differs each time
    CHANGED = "changed"  # the task is known, but something that its result depends on changed
    DELETED = "gone"  # it was computed before, and has been deleted since
    NEW = "new"  # nothing like it was ever computed
    UNNEEDED = "unneeded"  # it does not exist, but all requested outputs derived from it do


@dataclass(frozen=True, slots=True)
class ReuseExplanation:
    """Why an output was or was not reused, with the differences from the last output of its task."""

    verdict: ReuseVerdict
    differences: tuple[DescriptionChange, ...] = ()

    def __str__(self) -> str:
        return "\n".join([_MESSAGES[self.verdict], *(f"- {d}" for d in self.differences)])


_MESSAGES = {
    ReuseVerdict.REUSED: "reused: the same was computed before and still exists",
    ReuseVerdict.AWAITED: "awaited: another run is computing the same",
    ReuseVerdict.FORCED: "computed: it was forced, or its task may give another result each time",
    ReuseVerdict.CHANGED: "computed: something that it depends on has changed since it was last computed",
    ReuseVerdict.DELETED: "computed: the same was computed before, but has been deleted to free space",
    ReuseVerdict.NEW: "computed: nothing like it was ever computed",
    ReuseVerdict.UNNEEDED: "not computed: it does not exist, but all requested outputs derived from it do",
}


def explain_reuse(
    candidate: ActionRequest | IdentifiedNode,
    state: DatasetState | None,
    last: Json | None = None,
    *,
    needed: bool = True,
) -> ReuseExplanation:
    """Explain whether `candidate`, which an action may need to read, is reused; `last` is its task's last output."""
    if state in READABLE_STATES or state is DatasetState.PROCESSING:
        return ReuseExplanation(ReuseVerdict.REUSED)
    if state in PRODUCING_STATES:
        return ReuseExplanation(ReuseVerdict.AWAITED)
    if not needed:
        return ReuseExplanation(ReuseVerdict.UNNEEDED)
    if candidate.forced:
        return ReuseExplanation(ReuseVerdict.FORCED)
    if state is not None:
        return ReuseExplanation(ReuseVerdict.DELETED)
    if last is None:
        return ReuseExplanation(ReuseVerdict.NEW)
    return ReuseExplanation(ReuseVerdict.CHANGED, diff_descriptions(last, candidate.description))
