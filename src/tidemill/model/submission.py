"""Submissions of one-shot workflows: what is handed in, what is kept of it, and the datasets that come of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import astuple, dataclass
from typing import Any

from tidemill.model.block import Block, BlockKind, DataFile
from tidemill.model.identity import Identity
from tidemill.model.run import TO_COME, UNDER_WAY, Run, RunState
from tidemill.model.schema import Schema
from tidemill.model.states import READABLE, DatasetState
from tidemill.model.view import Snapshot

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ActionRequest:
    """An action as it is handed in, with the name of what it makes. `plain` is that name without any force."""

    key: str
    name: str
    kind: str
    identity: Identity
    plain: Identity
    generation: int
    description: Json
    forced: bool
    parents: tuple[Identity, ...] = ()  # in port order
    keep: bool = False
    pinned: bool = False
    path: str | None = None
    attempts: int = 1


@dataclass(frozen=True, slots=True)
class SubmissionRequest:
    """A workflow as it is handed in, parents before their children."""

    workflow: str
    user: str
    document: Json
    wishes: tuple[ActionRequest, ...]


@dataclass(frozen=True, slots=True)
class StoredDataset:
    """A dataset as the catalog knows it."""

    identity: Identity
    workflow: str  # whose action first wanted it, under this name
    name: str
    kind: str
    parents: tuple[Identity, ...]
    state: DatasetState
    claims: int
    run: int | None
    schema: Schema | None
    files: tuple[DataFile, ...]
    bytes: int
    seconds: float
    made: float | None
    used: float | None
    pinned: bool = False

    @property
    def is_readable(self) -> bool:
        return self.state in READABLE

    def to_snapshot(self, name: str) -> Snapshot:
        """Its content, as an engine reads it."""
        schema = self.schema or Schema(())
        base = Block(0, name, 0, BlockKind.BASE, schema, files=self.files, identity=self.identity)
        return Snapshot(name, schema, 0, base)


@dataclass(frozen=True, slots=True)
class SubmittedAction:
    """What became of an action of a submission."""

    key: str
    name: str
    kind: str
    identity: Identity
    verdict: str
    why: str
    saved: float  # seconds
    path: str | None
    placed: float | None
    run: Run | None  # that makes its dataset; none if that was there, or is not needed
    bytes: int  # of its dataset

    @property
    def state(self) -> RunState:
        """What was there has nothing left to do, unless a copy of it is wanted somewhere."""
        if self.run is not None and self.run.state is not RunState.FINISHED:
            return self.run.state
        return RunState.FINISHED if self.path is None or self.placed is not None else RunState.WAITING


@dataclass(frozen=True, slots=True)
class Submission:
    id: int
    workflow: str
    user: str
    at: float
    actions: tuple[SubmittedAction, ...]

    @property
    def state(self) -> RunState:
        """That of its worst action: one that came to nothing, else one that has not ended."""
        return find_worst_state(a.state for a in self.actions)

    @property
    def has_ended(self) -> bool:
        """Will nothing change any more by itself?"""
        return not any(a.state in (*TO_COME, *UNDER_WAY) for a in self.actions)


def find_worst_state(states: Iterable[RunState]) -> RunState:
    """
    >>> str(find_worst_state([RunState.FINISHED, RunState.WAITING, RunState.RUNNING]))
    'running'
    """
    found = set(states)
    ranked = (RunState.FAILED, RunState.KILLED, *reversed(UNDER_WAY), *reversed(TO_COME))
    return next((s for s in ranked if s in found), RunState.FINISHED)


@dataclass(frozen=True, slots=True)
class ActionSpec:
    """What the run of an action is to do: which action of which workflow, and what it makes from what."""

    submission: int
    document: Json
    key: str
    description: Json  # of what it makes, as it was submitted
    dataset: StoredDataset
    inputs: tuple[StoredDataset, ...]  # in port order


@dataclass(frozen=True, slots=True)
class ActionResult:
    """What the run of an action made."""

    schema: Schema
    files: tuple[DataFile, ...]
    seconds: float
    log: str = ""


@dataclass(frozen=True, slots=True)
class DatasetPlacement:
    """A copy of a dataset that somebody wants at a path of theirs."""

    submission: int
    key: str
    path: str
    dataset: StoredDataset


@dataclass(frozen=True, slots=True)
class ExpiredHistory:
    """How much of what was submitted, and of what happened, was forgotten."""

    submissions: int = 0
    datasets: int = 0  # that were gone
    runs: int = 0
    events: int = 0  # of no run

    def __add__(self, other: ExpiredHistory) -> ExpiredHistory:
        mine, theirs = astuple(self), astuple(other)
        return ExpiredHistory(*(a + b for a, b in zip(mine, theirs, strict=True)))
