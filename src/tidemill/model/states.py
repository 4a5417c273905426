"""The states of actions and of datasets, and every legal move between them.

Whoever moves something writes `UPDATE … WHERE state = before AND version = known`. So of several who try, one wins, and
the others find that nothing changed. What is not in the tables below is refused before it reaches the database.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Generic, TypeVar

from tidemill.errors import IllegalMove


class ActionState(StrEnum):
    WAITING = "waiting"  # for what others make, or for its own old files to be gone
    READY = "ready"  # any server may claim it
    CLAIMED = "claimed"  # a server has it, under a lease
    SUBMITTED = "submitted"  # handed to the engine under a key, so that handing it over twice starts it once
    RUNNING = "running"
    FINISHED = "finished"
    FAILED = "failed"
    KILLED = "killed"


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


S = TypeVar("S", ActionState, DatasetState)


@dataclass(frozen=True, slots=True)
class Move(Generic[S]):
    """A legal move, and the one thing that may cause it."""

    before: S
    after: S
    cause: str


@dataclass(frozen=True, slots=True)
class Machine(Generic[S]):
    """All legal moves of one kind of thing."""

    noun: str
    moves: tuple[Move[S], ...]

    def after(self, before: S) -> tuple[S, ...]:
        """Where it can go from here."""
        return tuple(m.after for m in self.moves if m.before is before)

    def check(self, before: S, after: S) -> None:
        if after not in self.after(before):
            raise IllegalMove(f"{self.noun} that is {before} cannot become {after}; {self._instead(before)}")

    def _instead(self, before: S) -> str:
        causes = [f"{m.after} ({m.cause})" for m in self.moves if m.before is before]
        return f"from there it can become {', '.join(causes)}" if causes else "it stays as it is"


A, D = ActionState, DatasetState


def _from(states: Iterable[S], after: S, cause: str) -> tuple[Move[S], ...]:
    return tuple(Move(before, after, cause) for before in states)


ACTIONS = Machine(
    "an action",
    (
        Move(A.WAITING, A.READY, "nothing is awaited any more"),
        Move(A.WAITING, A.FAILED, "what it waits for will never come"),
        Move(A.READY, A.CLAIMED, "a server took it"),
        Move(A.READY, A.WAITING, "an input was lost"),
        Move(A.CLAIMED, A.CLAIMED, "the claim expired, and another server took it"),
        Move(A.CLAIMED, A.READY, "the server shut down in order"),
        Move(A.CLAIMED, A.SUBMITTED, "the server hands it to the engine"),
        Move(A.SUBMITTED, A.RUNNING, "the engine began"),
        Move(A.SUBMITTED, A.FINISHED, "it committed, and its start was missed"),
        Move(A.RUNNING, A.FINISHED, "it committed"),
        *_from((A.SUBMITTED, A.RUNNING), A.READY, "it failed or was lost, and tries remain"),
        *_from((A.SUBMITTED, A.RUNNING), A.FAILED, "it failed or was lost, and no try remains"),
        Move(A.RUNNING, A.WAITING, "an input was lost"),
        *_from((A.WAITING, A.READY, A.CLAIMED, A.SUBMITTED, A.RUNNING), A.KILLED, "somebody killed it"),
        *_from((A.FAILED, A.KILLED), A.WAITING, "it was submitted again"),
    ),
)

DATASETS = Machine(
    "a dataset",
    (
        Move(D.TO_STORE, D.STORED, "its producer committed"),
        Move(D.TO_LEAF, D.LEAF, "its producer committed"),
        Move(D.TO_DELETE, D.STORED_TO_DELETE, "its producer committed"),
        *_from((D.TO_STORE, D.TO_LEAF, D.TO_DELETE), D.DELETED, "its producer died"),
        *_from((D.TO_STORE, D.TO_DELETE), D.TO_LEAF, "somebody wants it to stay"),
        Move(D.TO_DELETE, D.TO_STORE, "it is wanted again"),
        Move(D.STORED, D.LEAF, "somebody wants it to stay"),
        Move(D.STORED, D.PROCESSING, "it was chosen to go, and nobody claims it"),
        Move(D.STORED, D.STORED_TO_DELETE, "it was chosen to go, and somebody claims it"),
        Move(D.STORED_TO_DELETE, D.PROCESSING, "the last claim was released"),
        *_from((D.STORED_TO_DELETE, D.PROCESSING), D.STORED, "it is wanted again"),
        *_from((D.STORED_TO_DELETE, D.PROCESSING), D.LEAF, "somebody wants it to stay"),
        Move(D.PROCESSING, D.PROCESSING, "who was to delete it is gone, and another took over"),
        Move(D.PROCESSING, D.DELETING, "nobody claims it, looked at again in the same transaction"),
        Move(D.DELETING, D.DELETING, "deleting failed, or who did it is gone; it is tried again"),
        Move(D.DELETING, D.DELETED, "all its files are gone"),
        Move(D.LEAF, D.PROCESSING, "its user deletes it, and nobody claims it"),
        Move(D.LEAF, D.STORED_TO_DELETE, "its user deletes it, and somebody claims it"),
        *_from((D.STORED, D.LEAF, D.STORED_TO_DELETE, D.PROCESSING), D.DELETED, "its files were lost"),
        *_from((D.DELETED,), D.TO_STORE, "it is made again"),
        *_from((D.DELETED,), D.TO_LEAF, "it is made again, to stay"),
        *_from((D.DELETED,), D.TO_DELETE, "it is made again, for those who wait for it alone"),
    ),
)

LIVE = frozenset({A.WAITING, A.READY, A.CLAIMED, A.SUBMITTED, A.RUNNING})
PRODUCED = frozenset({D.TO_STORE, D.TO_LEAF, D.TO_DELETE})
"""Somebody is making it."""
READABLE = frozenset({D.STORED, D.LEAF, D.STORED_TO_DELETE})
KEPT = frozenset({D.LEAF, D.TO_LEAF})
"""No decision about space ever touches these."""


@dataclass(frozen=True, slots=True)
class Action:
    """Where an action stands. `version` grows with every move, so that nobody moves what he has not seen."""

    state: ActionState
    version: int = 0
    tries: int = 0  # so often it was handed to the engine

    def moved(self, after: ActionState) -> Action:
        ACTIONS.check(self.state, after)
        tries = 0 if self.state not in LIVE else self.tries + (after is A.SUBMITTED)
        return Action(after, self.version + 1, tries)

    def lost(self, most: int) -> Action:
        """After a try came to nothing: ready again while tries remain, else failed."""
        return self.moved(A.READY if self.tries < most else A.FAILED)


@dataclass(frozen=True, slots=True)
class Dataset:
    """Where a dataset stands, and how many actions that will read it have claimed it."""

    state: DatasetState
    version: int = 0
    claims: int = 0

    def moved(self, after: DatasetState) -> Dataset:
        DATASETS.check(self.state, after)
        if after in (D.PROCESSING, D.DELETING) and self.claims:
            raise IllegalMove(f"a dataset with {self.claims} claims cannot become {after}; wait for the last release")
        claims = 0 if after is D.DELETED else self.claims
        return Dataset(after, self.version + 1, claims)

    def claimed(self) -> Dataset:
        """Somebody will read it; what is being made can be claimed beforehand."""
        if self.state not in READABLE | PRODUCED:
            raise IllegalMove(f"a dataset that is {self.state} cannot be claimed; rescue it or make it again first")
        return replace(self, version=self.version + 1, claims=self.claims + 1)

    def released(self) -> Dataset:
        """Somebody has read it. What was only waiting for this goes on to be deleted."""
        if not self.claims:
            raise IllegalMove("a dataset that nobody claims cannot be released; each claim is released once")
        left = replace(self, version=self.version + 1, claims=self.claims - 1)
        return left.moved(D.PROCESSING) if left.state is D.STORED_TO_DELETE and not left.claims else left

    def evicted(self) -> Dataset:
        """Chosen to make room: at once, or when the last claim is released."""
        if self.state is not D.STORED:
            raise IllegalMove(f"only a stored dataset makes room, and this one is {self.state}; choose another")
        return self.moved(D.STORED_TO_DELETE if self.claims else D.PROCESSING)

    def wanted(self, *, leaf: bool) -> Dataset:
        """Somebody needs it to be there: rescued if it was about to go, and kept for good as a leaf."""
        if self.state in (D.DELETING, D.DELETED):
            raise IllegalMove(f"a dataset that is {self.state} cannot be rescued; make it again")
        goal = _stays(self.state, leaf)
        return self if goal is self.state else self.moved(goal)


def _stays(state: DatasetState, leaf: bool) -> DatasetState:
    if state in KEPT:
        return state
    if state in PRODUCED:
        return D.TO_LEAF if leaf else D.TO_STORE
    return D.LEAF if leaf else D.STORED
