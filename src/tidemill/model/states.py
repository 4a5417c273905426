"""The states of runs and of datasets, and every legal move between them. An action that must run is a run.

Whoever moves something writes `UPDATE … WHERE state = before AND version = known`. So of several who try, one wins, and
the others find that nothing changed. What is not in the tables below is refused before it reaches the database.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Generic, TypeVar

from tidemill.errors import IllegalMove
from tidemill.model.run import RunState


class DatasetState(StrEnum):
    TO_STORE = "to-store"  # somebody makes it; it will be stored
    TO_LEAF = "to-leaf"  # somebody makes it; it will be a leaf
    TO_DELETE = "to-delete"  # somebody makes it; it will go once those who wait for it have read it
    STORED = "stored"  # there until space is short
    LEAF = "leaf"  # there until its user deletes it
    STORED_TO_DELETE = "stored-to-delete"  # there until the last claim is released
    PROCESSING = "processing"  # chosen to be deleted; may still be rescued
    DELETING = "deleting"  # its files are going; nobody may read it any more
    DELETED = "deleted"


S = TypeVar("S", RunState, DatasetState)


@dataclass(frozen=True, slots=True)
class StateTransition(Generic[S]):
    """A legal move, and the one thing that may cause it."""

    before: S
    after: S
    cause: str


@dataclass(frozen=True, slots=True)
class StateMachine(Generic[S]):
    """All legal moves of one kind of thing."""

    noun: str
    moves: tuple[StateTransition[S], ...]

    def list_targets(self, before: S) -> tuple[S, ...]:
        """Where it can go from here."""
        return tuple(m.after for m in self.moves if m.before is before)

    def check_transition(self, before: S, after: S) -> None:
        if after not in self.list_targets(before):
            raise IllegalMove(f"{self.noun} that is {before} cannot become {after}; {self._describe_options(before)}")

    def _describe_options(self, before: S) -> str:
        causes = [f"{m.after} ({m.cause})" for m in self.moves if m.before is before]
        return f"from there it can become {', '.join(causes)}" if causes else "it stays as it is"


R, D = RunState, DatasetState


def _build_transitions(states: Iterable[S], after: S, cause: str) -> tuple[StateTransition[S], ...]:
    return tuple(StateTransition(before, after, cause) for before in states)


ACTIONS = StateMachine(
    "a run",
    (
        StateTransition(R.WAITING, R.READY, "nothing is awaited any more"),
        StateTransition(R.WAITING, R.FAILED, "what it waits for will never come"),
        *_build_transitions((R.WAITING, R.READY), R.CLAIMED, "a server took it"),
        *_build_transitions(
            (R.WAITING, R.READY), R.SUBMITTED, "a server took it and hands it to the engine, in one step"
        ),
        StateTransition(R.CLAIMED, R.READY, "the server shut down in order, or its claim expired"),
        StateTransition(R.CLAIMED, R.WAITING, "the server gave it back, to be looked at again later"),
        StateTransition(R.CLAIMED, R.SUBMITTED, "the server hands it to the engine"),
        StateTransition(R.SUBMITTED, R.RUNNING, "the engine began"),
        StateTransition(R.SUBMITTED, R.FINISHED, "it committed, and its start was missed"),
        StateTransition(R.RUNNING, R.FINISHED, "it committed"),
        *_build_transitions((R.SUBMITTED, R.RUNNING), R.READY, "it failed or was lost, and tries remain"),
        *_build_transitions((R.SUBMITTED, R.RUNNING), R.WAITING, "it failed, and is tried again later"),
        *_build_transitions((R.CLAIMED, R.SUBMITTED, R.RUNNING), R.FAILED, "it failed or was lost, and no try remains"),
        *_build_transitions((R.WAITING, R.READY, R.CLAIMED, R.SUBMITTED, R.RUNNING), R.KILLED, "somebody killed it"),
    ),
)
"""Moves of runs, those of actions among them. What has ended stays so: whoever submits again gets another run."""

DATASETS = StateMachine(
    "a dataset",
    (
        StateTransition(D.TO_STORE, D.STORED, "its producer committed"),
        StateTransition(D.TO_LEAF, D.LEAF, "its producer committed"),
        StateTransition(D.TO_DELETE, D.STORED_TO_DELETE, "its producer committed"),
        *_build_transitions((D.TO_STORE, D.TO_LEAF, D.TO_DELETE), D.DELETED, "its producer died"),
        *_build_transitions((D.TO_STORE, D.TO_DELETE), D.TO_LEAF, "somebody wants it to stay"),
        StateTransition(D.TO_DELETE, D.TO_STORE, "it is wanted again"),
        StateTransition(D.STORED, D.LEAF, "somebody wants it to stay"),
        StateTransition(D.STORED, D.PROCESSING, "it was chosen to go, and nobody claims it"),
        StateTransition(D.STORED, D.STORED_TO_DELETE, "it was chosen to go, and somebody claims it"),
        StateTransition(D.STORED_TO_DELETE, D.PROCESSING, "the last claim was released"),
        *_build_transitions((D.STORED_TO_DELETE, D.PROCESSING), D.STORED, "it is wanted again"),
        *_build_transitions((D.STORED_TO_DELETE, D.PROCESSING), D.LEAF, "somebody wants it to stay"),
        StateTransition(D.PROCESSING, D.PROCESSING, "who was to delete it is gone, and another took over"),
        StateTransition(D.PROCESSING, D.DELETING, "nobody claims it, looked at again in the same transaction"),
        StateTransition(D.DELETING, D.DELETING, "deleting failed, or who did it is gone; it is tried again"),
        StateTransition(D.DELETING, D.DELETED, "all its files are gone"),
        StateTransition(D.LEAF, D.PROCESSING, "its user deletes it, and nobody claims it"),
        StateTransition(D.LEAF, D.STORED_TO_DELETE, "its user deletes it, and somebody claims it"),
        *_build_transitions((D.STORED, D.LEAF, D.STORED_TO_DELETE, D.PROCESSING), D.DELETED, "its files were lost"),
        *_build_transitions((D.DELETED,), D.TO_STORE, "it is made again"),
        *_build_transitions((D.DELETED,), D.TO_LEAF, "it is made again, to stay"),
        *_build_transitions((D.DELETED,), D.TO_DELETE, "it is made again, for those who wait for it alone"),
    ),
)

PRODUCED = frozenset({D.TO_STORE, D.TO_LEAF, D.TO_DELETE})
"""Somebody is making it."""
READABLE = frozenset({D.STORED, D.LEAF, D.STORED_TO_DELETE})
HOLDS_FILES = READABLE | {D.PROCESSING, D.DELETING}
KEPT = frozenset({D.LEAF, D.TO_LEAF})
"""No decision about space ever touches these."""


@dataclass(frozen=True, slots=True)
class Dataset:
    """Where a dataset stands, how many actions that will read it have claimed it, and whether somebody pinned it."""

    state: DatasetState
    version: int = 0
    claims: int = 0
    pinned: bool = False

    def transition_to(self, after: DatasetState) -> Dataset:
        DATASETS.check_transition(self.state, after)
        if after in (D.PROCESSING, D.DELETING) and self.claims:
            raise IllegalMove(f"a dataset with {self.claims} claims cannot become {after}; wait for the last release")
        if after in (D.PROCESSING, D.STORED_TO_DELETE, D.TO_DELETE) and self.pinned:
            raise IllegalMove(f"a dataset that is pinned cannot become {after}; unpin it first")
        claims = 0 if after is D.DELETED else self.claims
        return replace(self, state=after, version=self.version + 1, claims=claims)

    def add_claim(self) -> Dataset:
        """Somebody will read it; what is being made can be claimed beforehand."""
        if self.state not in READABLE | PRODUCED:
            raise IllegalMove(f"a dataset that is {self.state} cannot be claimed; rescue it or make it again first")
        return replace(self, version=self.version + 1, claims=self.claims + 1)

    def release_claim(self) -> Dataset:
        """Somebody has read it. What was only waiting for this goes on to be deleted."""
        if not self.claims:
            raise IllegalMove("a dataset that nobody claims cannot be released; each claim is released once")
        left = replace(self, version=self.version + 1, claims=self.claims - 1)
        return left.transition_to(D.PROCESSING) if left.state is D.STORED_TO_DELETE and not left.claims else left

    def mark_for_eviction(self) -> Dataset:
        """Chosen to make room: at once, or when the last claim is released."""
        if self.state is not D.STORED:
            raise IllegalMove(f"only a stored dataset makes room, and this one is {self.state}; choose another")
        return self.transition_to(D.STORED_TO_DELETE if self.claims else D.PROCESSING)

    def retain_dataset(self, *, leaf: bool) -> Dataset:
        """Somebody needs it to be there: rescued if it was about to go, and kept for good as a leaf."""
        if self.state in (D.DELETING, D.DELETED):
            raise IllegalMove(f"a dataset that is {self.state} cannot be rescued; make it again")
        goal = _find_retained_state(self.state, leaf)
        return self if goal is self.state else self.transition_to(goal)

    def pin(self) -> Dataset:
        """No decision about space touches it from now on; rescued if it was about to go."""
        stays = self.retain_dataset(leaf=False)
        return replace(stays, version=stays.version + 1, pinned=True)

    def unpin(self) -> Dataset:
        return replace(self, version=self.version + 1, pinned=False)


def _find_retained_state(state: DatasetState, leaf: bool) -> DatasetState:
    if state in KEPT:
        return state
    if state in PRODUCED:
        return D.TO_LEAF if leaf else D.TO_STORE
    return D.LEAF if leaf else D.STORED
