"""Prepares a submitted workflow: which actions to run, to wait for, to reuse, and which datasets to rescue.

Two passes, in the transaction of the submission. The first traverses from the requested outputs back towards the inputs
and stops at datasets that exist or are being computed. Only when it is complete are the running actions known, so only
then, in the second pass, does each input of a running action become awaited or claimed.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from tidemill.model.identity import Identity
from tidemill.model.states import PRODUCING_STATES, Dataset, DatasetState
from tidemill.model.submission import RequestedAction

A = TypeVar("A", bound=RequestedAction)


@dataclass(frozen=True, slots=True)
class RunnableAction:
    """An action that must run."""

    identity: Identity
    awaits: frozenset[Identity]  # missing inputs; the commit that creates one turns the wait for it into a claim
    claims: frozenset[Identity]  # existing inputs, which are retained while they are claimed
    after_deletion: bool = False  # its previous output is still being deleted

    @property
    def is_ready(self) -> bool:
        return not self.awaits and not self.after_deletion


@dataclass(frozen=True, slots=True)
class Preparation:
    """The effects of a submission. One transaction applies all of them, or none."""

    run: tuple[RunnableAction, ...]
    wait: frozenset[Identity]  # computed by another submission, and requested here
    reuse: frozenset[Identity]  # existing datasets, including rescued ones
    transitions: Mapping[Identity, tuple[DatasetState | None, DatasetState]]  # state transitions; None: was unknown


def prepare_submission(actions: Iterable[RequestedAction], datasets: Mapping[Identity, Dataset]) -> Preparation:
    """Determine what to do so that the sinks and all kept or pinned datasets exist."""
    graph = merge_actions(actions)
    inner = {p for action in graph.values() for p in action.parents}
    leaves = {i for i, action in graph.items() if action.is_leaf or i not in inner}
    states = {i: datasets[i].state for i in graph if i in datasets}
    needed = _find_needed(graph, leaves | {i for i, action in graph.items() if action.pinned}, states)
    run = [i for i in graph if i in needed and _is_missing(states.get(i))]
    existing = needed.difference(run)
    return Preparation(
        run=tuple(_build_runnable(graph[i], set(run), states) for i in run),
        wait=frozenset(i for i in existing if states[i] in PRODUCING_STATES),
        reuse=frozenset(i for i in existing if states[i] not in PRODUCING_STATES),
        transitions=_compute_transitions(run, existing, leaves, datasets),
    )


def merge_actions(actions: Iterable[A]) -> dict[Identity, A]:
    """Merge the actions with the same output; the result is a leaf or pinned if one of them is."""
    merged: dict[Identity, A] = {}
    for action in actions:
        first = merged.get(action.identity, action)
        is_leaf, pinned = first.is_leaf or action.is_leaf, first.pinned or action.pinned
        merged[action.identity] = replace(first, is_leaf=is_leaf, pinned=pinned)
    return merged


def _find_needed(
    graph: Mapping[Identity, RequestedAction], goals: set[Identity], states: Mapping[Identity, DatasetState]
) -> set[Identity]:
    """First pass: traverse back from the goals, as long as actions must run."""
    seen: set[Identity] = set()
    pending = list(goals)
    while pending:
        identity = pending.pop()
        if identity not in seen:
            seen.add(identity)
            pending += graph[identity].parents if _is_missing(states.get(identity)) else ()
    return seen


def _is_missing(state: DatasetState | None) -> bool:
    return state in (None, DatasetState.DELETED, DatasetState.DELETING)


def _build_runnable(
    action: RequestedAction, run: set[Identity], states: Mapping[Identity, DatasetState]
) -> RunnableAction:
    """Second pass: an input that runs here or elsewhere is awaited; any other is claimed."""
    awaits = frozenset(p for p in action.parents if p in run or states[p] in PRODUCING_STATES)
    deleting = states.get(action.identity) is DatasetState.DELETING
    return RunnableAction(action.identity, awaits, frozenset(action.parents) - awaits, deleting)


def _compute_transitions(
    run: Iterable[Identity], existing: Iterable[Identity], leaves: set[Identity], datasets: Mapping[Identity, Dataset]
) -> dict[Identity, tuple[DatasetState | None, DatasetState]]:
    moves: dict[Identity, tuple[DatasetState | None, DatasetState]] = {}
    for i in run:
        before = datasets[i].state if i in datasets else None
        if before is not DatasetState.DELETING:  # that one changes when its files are deleted
            moves[i] = before, DatasetState.TO_LEAF if i in leaves else DatasetState.TO_STORE
    for i in existing:
        current, retained = datasets[i].state, datasets[i].retain_dataset(leaf=i in leaves).state
        if retained is not current:
            moves[i] = current, retained
    return moves
