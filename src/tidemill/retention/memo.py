"""The memo: whether what is wanted has been made before, and why or why not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from tidemill.model.code import NOTHING, Json
from tidemill.model.description import DescriptionChange, compute_dataset_identity, describe_output, diff_descriptions
from tidemill.model.identity import Identity
from tidemill.model.states import PRODUCED, READABLE, DatasetState
from tidemill.model.task import Task


@dataclass(frozen=True, slots=True)
class MemoNode:
    """A task of a submitted graph. `parents` are in port order, and stand before it."""

    key: str
    task: Task
    parents: tuple[str, ...] = ()
    force: bool = False
    output: str = ""  # which of the task's outputs this is; the only one if left out


@dataclass(frozen=True, slots=True)
class IdentifiedNode:
    """A node with what it makes: `plain` is the identity that it would have if nothing had ever been forced."""

    key: str
    identity: Identity
    plain: Identity
    generation: int
    description: Json
    forced: bool


Recorded = Callable[[Identity], Json | None]
"""The description that the catalog has under an identity."""


def identify_nodes(
    nodes: Iterable[MemoNode],
    recorded: Recorded,
    generations: Mapping[Identity, int],
    surroundings: Mapping[str, str] = NOTHING,
) -> dict[str, IdentifiedNode]:
    """What each node makes.

    `generations` has the newest generation of each plain identity. What is forced, or differs each time, begins the
    next one. So all that follows from it is new as well, and whoever submits the same later finds it all again.
    """
    found: dict[str, IdentifiedNode] = {}
    for node in nodes:
        inputs = [[found[p].identity] for p in node.parents]
        forced = node.force or not node.task.is_repeatable
        description = _resolve_collision(describe_output(node.task, node.output, inputs, surroundings), recorded)
        plain = compute_dataset_identity(description)
        generation = generations.get(plain, 0) + forced
        if generation:
            description = _resolve_collision(description | {"generation": generation}, recorded)
        found[node.key] = IdentifiedNode(
            node.key, compute_dataset_identity(description), plain, generation, description, forced
        )
    return found


def _resolve_collision(description: Json, recorded: Recorded) -> Json:
    """The description, under an identity that no other has: should one collide, it is told apart by a number."""
    tried, number = description, 0
    while recorded(compute_dataset_identity(tried)) not in (None, tried):
        number += 1
        tried = description | {"collision": number}
    return tried


class ReuseCandidate(Protocol):
    """What an explanation is about."""

    @property
    def identity(self) -> Identity: ...
    @property
    def description(self) -> Json: ...
    @property
    def forced(self) -> bool: ...


class ReuseVerdict(StrEnum):
    REUSED = "reused"
    AWAITED = "awaited"  # somebody else is making it
    FORCED = "forced"  # its user said so, or it gives another result each time
    CHANGED = "changed"  # the task is known, but something that its result follows from is not as it was
    GONE = "gone"  # it was made before, and has been deleted since
    NEW = "new"  # nothing like it was ever made
    UNNEEDED = "unneeded"  # it is not there, but all that follows from it is


@dataclass(frozen=True, slots=True)
class ReuseExplanation:
    """Why something was or was not reused; with what differs from the last that its task made."""

    verdict: ReuseVerdict
    identity: Identity
    differences: tuple[DescriptionChange, ...] = ()

    def __str__(self) -> str:
        return "\n".join([_SAID[self.verdict], *(f"- {d}" for d in self.differences)])


_SAID = {
    ReuseVerdict.REUSED: "reused: the same was made before and is still there",
    ReuseVerdict.AWAITED: "awaited: the same is being made by another run",
    ReuseVerdict.FORCED: "computed: it was forced, or its task may give another result each time",
    ReuseVerdict.CHANGED: "computed: something that it follows from has changed since it was last made",
    ReuseVerdict.GONE: "computed: the same was made before, but has been deleted to make room",
    ReuseVerdict.NEW: "computed: nothing like it was ever made",
    ReuseVerdict.UNNEEDED: "not computed: it is not there, but all that was wanted from it is",
}


def explain_reuse(
    wanted: ReuseCandidate, state: DatasetState | None, last: Json | None = None, *, needed: bool = True
) -> ReuseExplanation:
    """Why `wanted` is reused or not, from the state of its dataset and what its task last made under any identity.

    `needed` says whether anybody would have to read it.
    """
    if state in READABLE or state is DatasetState.PROCESSING:
        return ReuseExplanation(ReuseVerdict.REUSED, wanted.identity)
    if state in PRODUCED:
        return ReuseExplanation(ReuseVerdict.AWAITED, wanted.identity)
    if not needed:
        return ReuseExplanation(ReuseVerdict.UNNEEDED, wanted.identity)
    if wanted.forced:
        return ReuseExplanation(ReuseVerdict.FORCED, wanted.identity)
    if state is not None:
        return ReuseExplanation(ReuseVerdict.GONE, wanted.identity)
    if last is None:
        return ReuseExplanation(ReuseVerdict.NEW, wanted.identity)
    return ReuseExplanation(ReuseVerdict.CHANGED, wanted.identity, diff_descriptions(last, wanted.description))
