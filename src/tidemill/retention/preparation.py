"""What a submitted workflow makes necessary: what to run, to wait for, to reuse and to rescue.

Two passes, in the transaction that submits. The first goes from what is wanted back towards the inputs and stops at
whatever is there or being made. Only when it is complete is it known who runs, so only then, in the second, does each
input of a running action become something to wait for or to claim.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from tidemill.model.identity import Identity
from tidemill.model.states import PRODUCED, Dataset, DatasetState


@dataclass(frozen=True, slots=True)
class RequestedAction:
    """An action of a submitted workflow, by what it makes. Actions that make the same are one.

    An action that is forced makes something new: its identity has a generation of its own (`retention/memo.py`).
    """

    identity: Identity
    parents: tuple[Identity, ...] = ()
    keep: bool = False  # somebody wants it to stay, although something follows from it
    pinned: bool = False  # it must be there and is not to be evicted, but is no leaf for that


@dataclass(frozen=True, slots=True)
class RunnableAction:
    """An action that must run.

    `awaits` are inputs that do not exist yet; in the commit that makes one, the wait for it becomes a claim. `claims`
    are inputs that do, and stay while they are claimed. `after_deletion`: what it made before is still being deleted.
    """

    identity: Identity
    awaits: frozenset[Identity]
    claims: frozenset[Identity]
    after_deletion: bool = False

    @property
    def is_ready(self) -> bool:
        return not self.awaits and not self.after_deletion


@dataclass(frozen=True, slots=True)
class Preparation:
    """What follows from a submission. All of it is done in one transaction, or none."""

    run: tuple[RunnableAction, ...]
    wait: frozenset[Identity]  # made by somebody else, and wanted here
    reuse: frozenset[Identity]  # there already, those that are rescued included
    rescue: frozenset[Identity]  # about to be deleted: if that update fails, prepare again with what is there then
    moves: Mapping[Identity, tuple[DatasetState | None, DatasetState]]  # what becomes of datasets; None: unknown before


def prepare_submission(actions: Iterable[RequestedAction], datasets: Mapping[Identity, Dataset]) -> Preparation:
    """What to do so that the sinks and all that is to be kept or pinned are there."""
    graph = _merge_actions(actions)
    leaves = _find_leaves(graph)
    states = {i: datasets[i].state for i in graph if i in datasets}
    seen = _find_needed(graph, leaves | {i for i, action in graph.items() if action.pinned}, states)
    run = [i for i in graph if i in seen and _is_missing(states.get(i))]
    there = seen.difference(run)
    return Preparation(
        run=tuple(_build_runnable(graph[i], set(run), states) for i in run),
        wait=frozenset(i for i in there if states[i] in PRODUCED),
        reuse=frozenset(i for i in there if states[i] not in PRODUCED),
        rescue=frozenset(i for i in there if states[i] is DatasetState.PROCESSING),
        moves=_compute_transitions(run, there, leaves, datasets),
    )


def _merge_actions(actions: Iterable[RequestedAction]) -> dict[Identity, RequestedAction]:
    """One action for each dataset, kept or pinned if one of those that make it is."""
    merged: dict[Identity, RequestedAction] = {}
    for action in actions:
        known = merged.get(action.identity, action)
        keep, pinned = known.keep or action.keep, known.pinned or action.pinned
        merged[action.identity] = replace(known, keep=keep, pinned=pinned)
    return merged


def _find_leaves(graph: Mapping[Identity, RequestedAction]) -> set[Identity]:
    """What must be there in the end, and stay."""
    inner = {p for action in graph.values() for p in action.parents}
    return {i for i, action in graph.items() if action.keep or i not in inner}


def _find_needed(
    graph: Mapping[Identity, RequestedAction], goals: set[Identity], states: Mapping[Identity, DatasetState]
) -> set[Identity]:
    """The first pass: from what must be there back, as long as things must run."""
    seen: set[Identity] = set()
    ahead = list(goals)
    while ahead:
        at = ahead.pop()
        if at not in seen:
            seen.add(at)
            ahead += graph[at].parents if _is_missing(states.get(at)) else ()
    return seen


def _is_missing(state: DatasetState | None) -> bool:
    return state in (None, DatasetState.DELETED, DatasetState.DELETING)


def _build_runnable(
    action: RequestedAction, run: set[Identity], states: Mapping[Identity, DatasetState]
) -> RunnableAction:
    """The second pass: an input that runs, or that somebody else makes, is awaited; any other is claimed."""
    awaits = frozenset(p for p in action.parents if p in run or states[p] in PRODUCED)
    deleting = states.get(action.identity) is DatasetState.DELETING
    return RunnableAction(action.identity, awaits, frozenset(action.parents) - awaits, deleting)


def _compute_transitions(
    run: Iterable[Identity], there: Iterable[Identity], leaves: set[Identity], datasets: Mapping[Identity, Dataset]
) -> dict[Identity, tuple[DatasetState | None, DatasetState]]:
    moves: dict[Identity, tuple[DatasetState | None, DatasetState]] = {}
    for i in run:
        before = datasets[i].state if i in datasets else None
        if before is not DatasetState.DELETING:  # that one moves when its files are gone
            moves[i] = before, DatasetState.TO_LEAF if i in leaves else DatasetState.TO_STORE
    for i in there:
        stands, stays = datasets[i].state, datasets[i].retain_dataset(leaf=i in leaves).state
        if stays is not stands:
            moves[i] = stands, stays
    return moves
