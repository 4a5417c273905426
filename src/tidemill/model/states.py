"""The states of runs and of datasets, and all legal transitions between them. An action that must run is a run.

A transition is an `UPDATE … WHERE state = before AND version = known`. So of several concurrent attempts one wins, and
the others find that no row changed. Transitions that are not in the tables below are rejected before they reach the
database.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Generic, TypeVar

from tidemill.errors import IllegalTransition
from tidemill.model.run import RunState


class DatasetState(StrEnum):
    TO_STORE = "to-store"  # in production; it will be stored
    TO_LEAF = "to-leaf"  # in production; it will be a leaf
    TO_DELETE = "to-delete"  # in production; it will be deleted once its waiting readers have read it
    STORED = "stored"  # available until space is short
    LEAF = "leaf"  # available until its user deletes it
    STORED_TO_DELETE = "stored-to-delete"  # available until the last claim is released
    PROCESSING = "processing"  # chosen for deletion; may still be rescued
    DELETING = "deleting"  # its files are being deleted; it can no longer be read
    DELETED = "deleted"


S = TypeVar("S", RunState, DatasetState)


@dataclass(frozen=True, slots=True)
class StateTransition(Generic[S]):
    """A legal transition and its cause."""

    before: S
    after: S
    cause: str


@dataclass(frozen=True, slots=True)
class StateMachine(Generic[S]):
    """All legal transitions of runs or of datasets."""

    noun: str
    transitions: tuple[StateTransition[S], ...]

    def list_targets(self, before: S) -> tuple[S, ...]:
        """The states that can follow `before`."""
        return tuple(move.after for move in self.transitions if move.before is before)

    def check_transition(self, before: S, after: S) -> None:
        if after not in self.list_targets(before):
            raise IllegalTransition(
                f"{self.noun} that is {before} cannot become {after}; {self._describe_options(before)}"
            )

    def _describe_options(self, before: S) -> str:
        causes = [f"{move.after} ({move.cause})" for move in self.transitions if move.before is before]
        return f"from there it can become {', '.join(causes)}" if causes else "it is final"


R, D = RunState, DatasetState


def _build_transitions(states: Iterable[S], after: S, cause: str) -> tuple[StateTransition[S], ...]:
    return tuple(StateTransition(before, after, cause) for before in states)


RUN_TRANSITIONS = StateMachine(
    "a run",
    (
        StateTransition(R.WAITING, R.READY, "all inputs are available"),
        StateTransition(R.WAITING, R.FAILED, "an input can never become available"),
        *_build_transitions((R.WAITING, R.READY), R.CLAIMED, "a server claimed it"),
        *_build_transitions(
            (R.WAITING, R.READY), R.SUBMITTED, "a server claimed it and submits it to the engine, in one step"
        ),
        StateTransition(R.CLAIMED, R.READY, "the server shut down, or its lease expired"),
        StateTransition(R.CLAIMED, R.WAITING, "the server released it for a later attempt"),
        StateTransition(R.CLAIMED, R.SUBMITTED, "the server submits it to the engine"),
        StateTransition(R.SUBMITTED, R.RUNNING, "the engine started it"),
        StateTransition(R.SUBMITTED, R.FINISHED, "it committed, and its start was not recorded"),
        StateTransition(R.RUNNING, R.FINISHED, "it committed"),
        *_build_transitions((R.SUBMITTED, R.RUNNING), R.READY, "it failed or was lost, and attempts remain"),
        *_build_transitions((R.SUBMITTED, R.RUNNING), R.WAITING, "it failed, and is retried later"),
        *_build_transitions(
            (R.CLAIMED, R.SUBMITTED, R.RUNNING), R.FAILED, "it failed or was lost, and no attempt remains"
        ),
        *_build_transitions((R.WAITING, R.READY, R.CLAIMED, R.SUBMITTED, R.RUNNING), R.KILLED, "a user killed it"),
    ),
)
"""Transitions of runs, including those of actions. End states are final: a new submission creates a new run."""

DATASET_TRANSITIONS = StateMachine(
    "a dataset",
    (
        StateTransition(D.TO_STORE, D.STORED, "its producer committed"),
        StateTransition(D.TO_LEAF, D.LEAF, "its producer committed"),
        StateTransition(D.TO_DELETE, D.STORED_TO_DELETE, "its producer committed"),
        *_build_transitions((D.TO_STORE, D.TO_LEAF, D.TO_DELETE), D.DELETED, "its producer died"),
        *_build_transitions((D.TO_STORE, D.TO_DELETE), D.TO_LEAF, "a user requests to retain it"),
        StateTransition(D.TO_DELETE, D.TO_STORE, "it is requested again"),
        StateTransition(D.STORED, D.LEAF, "a user requests to retain it"),
        StateTransition(D.STORED, D.PROCESSING, "it was chosen for deletion and has no claims"),
        StateTransition(D.STORED, D.STORED_TO_DELETE, "it was chosen for deletion and has claims"),
        StateTransition(D.STORED_TO_DELETE, D.PROCESSING, "the last claim was released"),
        *_build_transitions((D.STORED_TO_DELETE, D.PROCESSING), D.STORED, "it is requested again"),
        *_build_transitions((D.STORED_TO_DELETE, D.PROCESSING), D.LEAF, "a user requests to retain it"),
        StateTransition(D.PROCESSING, D.PROCESSING, "the deleting server died, and another one took over"),
        StateTransition(D.PROCESSING, D.DELETING, "it has no claims, checked again in the same transaction"),
        StateTransition(D.DELETING, D.DELETING, "deletion failed, or the deleting server died; it is retried"),
        StateTransition(D.DELETING, D.DELETED, "all its files are deleted"),
        StateTransition(D.LEAF, D.PROCESSING, "its user deletes it, and it has no claims"),
        StateTransition(D.LEAF, D.STORED_TO_DELETE, "its user deletes it, and it has claims"),
        *_build_transitions((D.STORED, D.LEAF, D.STORED_TO_DELETE, D.PROCESSING), D.DELETED, "its files were lost"),
        *_build_transitions((D.DELETED,), D.TO_STORE, "it is recomputed"),
        *_build_transitions((D.DELETED,), D.TO_LEAF, "it is recomputed, to be retained"),
        *_build_transitions((D.DELETED,), D.TO_DELETE, "it is recomputed, only for its waiting readers"),
    ),
)

PRODUCING_STATES = frozenset({D.TO_STORE, D.TO_LEAF, D.TO_DELETE})
"""A run is producing it."""
READABLE_STATES = frozenset({D.STORED, D.LEAF, D.STORED_TO_DELETE})
STATES_WITH_FILES = READABLE_STATES | {D.PROCESSING, D.DELETING}
PERMANENT_STATES = frozenset({D.LEAF, D.TO_LEAF})
"""Never evicted."""


@dataclass(frozen=True, slots=True)
class Dataset:
    """A dataset's state, the number of claims by actions that will read it, and whether a user pinned it."""

    state: DatasetState
    version: int = 0
    claims: int = 0
    pinned: bool = False

    def transition_to(self, after: DatasetState) -> Dataset:
        DATASET_TRANSITIONS.check_transition(self.state, after)
        if after in (D.PROCESSING, D.DELETING) and self.claims:
            raise IllegalTransition(
                f"a dataset with {self.claims} claims cannot become {after}; wait for the last release"
            )
        if after in (D.PROCESSING, D.STORED_TO_DELETE, D.TO_DELETE) and self.pinned:
            raise IllegalTransition(f"a dataset that is pinned cannot become {after}; unpin it first")
        claims = 0 if after is D.DELETED else self.claims
        return replace(self, state=after, version=self.version + 1, claims=claims)

    def add_claim(self) -> Dataset:
        """Add a claim of a future reader; a dataset in production can be claimed as well."""
        if self.state not in READABLE_STATES | PRODUCING_STATES:
            raise IllegalTransition(
                f"a dataset that is {self.state} cannot be claimed; rescue it or recompute it first"
            )
        return replace(self, version=self.version + 1, claims=self.claims + 1)

    def release_claim(self) -> Dataset:
        """Release the claim of a reader. The last release starts a deletion that waited for it."""
        if not self.claims:
            raise IllegalTransition("a dataset without claims cannot be released; each claim is released once")
        released = replace(self, version=self.version + 1, claims=self.claims - 1)
        is_last = released.state is D.STORED_TO_DELETE and not released.claims
        return released.transition_to(D.PROCESSING) if is_last else released

    def mark_for_eviction(self) -> Dataset:
        """Choose the dataset for deletion: at once, or when the last claim is released."""
        if self.state is not D.STORED:
            raise IllegalTransition(
                f"only a stored dataset can be evicted, and this one is {self.state}; choose another"
            )
        return self.transition_to(D.STORED_TO_DELETE if self.claims else D.PROCESSING)

    def retain_dataset(self, *, leaf: bool) -> Dataset:
        """Retain the dataset: a pending deletion is cancelled; a leaf is kept until its user deletes it."""
        if self.state in (D.DELETING, D.DELETED):
            raise IllegalTransition(f"a dataset that is {self.state} cannot be rescued; recompute it")
        target = _find_retained_state(self.state, leaf)
        return self if target is self.state else self.transition_to(target)

    def pin(self) -> Dataset:
        """Exclude the dataset from eviction; a pending deletion is cancelled."""
        retained = self.retain_dataset(leaf=False)
        return replace(retained, version=retained.version + 1, pinned=True)

    def unpin(self) -> Dataset:
        return replace(self, version=self.version + 1, pinned=False)


def _find_retained_state(state: DatasetState, leaf: bool) -> DatasetState:
    if state in PERMANENT_STATES:
        return state
    if state in PRODUCING_STATES:
        return D.TO_LEAF if leaf else D.TO_STORE
    return D.LEAF if leaf else D.STORED
