"""Submissions of one-shot workflows: requests, stored submissions, and their datasets."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import astuple, dataclass
from operator import add
from typing import Any

from tidemill.model.block import Block, BlockKind, DataFile
from tidemill.model.identity import Identity
from tidemill.model.run import ACTIVE_STATES, PENDING_STATES, Run, RunState
from tidemill.model.schema import Schema
from tidemill.model.states import READABLE_STATES, DatasetState
from tidemill.model.view import Snapshot

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class RequestedAction:
    """An action of a submitted workflow, by its output. Actions with the same output are one.

    A forced action has a new output: its identity has a new generation (`retention/memo.py`).
    """

    identity: Identity
    parents: tuple[Identity, ...] = ()  # in port order
    is_leaf: bool = False  # its user wants to keep it, although other actions may use it
    pinned: bool = False  # it must exist and not be evicted, but that does not make it a leaf


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionRequest(RequestedAction):
    """An action as submitted. `unforced_identity` is the identity without the force option."""

    key: str
    name: str
    kind: str
    unforced_identity: Identity
    generation: int
    description: Json
    forced: bool
    path: str | None = None
    attempts: int = 1


@dataclass(frozen=True, slots=True)
class SubmissionRequest:
    """A workflow as submitted, parents before their children."""

    workflow: str
    user: str
    document: Json
    actions: tuple[ActionRequest, ...]


@dataclass(frozen=True, slots=True)
class StoredDataset:
    """A dataset as stored in the catalog."""

    identity: Identity
    workflow: str  # the workflow whose action first requested it, under this name
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
    computed_at: float | None
    used_at: float | None
    pinned: bool = False

    @property
    def is_readable(self) -> bool:
        return self.state in READABLE_STATES

    def to_snapshot(self, name: str) -> Snapshot:
        """Its content, as an engine reads it."""
        schema = self.schema or Schema(())
        base = Block(0, name, 0, BlockKind.BASE, schema, files=self.files, identity=self.identity)
        return Snapshot(name, schema, 0, base)


@dataclass(frozen=True, slots=True)
class SubmittedAction:
    """An action of a submission, with the decision to reuse or compute it and its progress."""

    key: str
    name: str
    kind: str
    identity: Identity
    verdict: str
    reason: str
    saved_seconds: float  # seconds
    path: str | None
    copied_at: float | None
    run: Run | None  # the run that produces its dataset; None if the dataset existed or is not needed
    bytes: int  # of its dataset

    @property
    def state(self) -> RunState:
        """The state of its run; a reused dataset is finished, unless a requested copy is pending."""
        if self.run is not None and self.run.state is not RunState.FINISHED:
            return self.run.state
        return RunState.FINISHED if self.path is None or self.copied_at is not None else RunState.WAITING


@dataclass(frozen=True, slots=True)
class Submission:
    id: int
    workflow: str
    user: str
    at: float
    actions: tuple[SubmittedAction, ...]

    @property
    def state(self) -> RunState:
        """The worst state of its actions: failed or killed, else one that has not ended."""
        return find_worst_state(a.state for a in self.actions)

    @property
    def has_ended(self) -> bool:
        """Whether no action is pending or active."""
        return not any(a.state in (*PENDING_STATES, *ACTIVE_STATES) for a in self.actions)


def find_worst_state(states: Iterable[RunState]) -> RunState:
    """The worst of several states: failures first, then active states, then pending ones.

    >>> str(find_worst_state([RunState.FINISHED, RunState.WAITING, RunState.RUNNING]))
    'running'
    """
    present = set(states)
    ranked = (RunState.FAILED, RunState.KILLED, *reversed(ACTIVE_STATES), *reversed(PENDING_STATES))
    return next((state for state in ranked if state in present), RunState.FINISHED)


@dataclass(frozen=True, slots=True)
class ActionSpec:
    """The work of an action's run: the action, its workflow, its dataset and its inputs."""

    submission: int
    document: Json
    key: str
    description: Json  # of its dataset, as submitted
    dataset: StoredDataset
    inputs: tuple[StoredDataset, ...]  # in port order


@dataclass(frozen=True, slots=True)
class ActionResult:
    """The result of an action's run."""

    schema: Schema
    files: tuple[DataFile, ...]
    seconds: float
    log: str = ""


@dataclass(frozen=True, slots=True)
class DatasetPlacement:
    """A copy of a dataset that a submission requests at a path of the user."""

    submission: int
    key: str
    path: str
    dataset: StoredDataset


@dataclass(frozen=True, slots=True)
class ExpiredHistory:
    """Numbers of expired history entries."""

    submissions: int = 0
    datasets: int = 0  # that had been deleted
    runs: int = 0
    events: int = 0  # that belong to no run

    def __add__(self, other: ExpiredHistory) -> ExpiredHistory:
        return ExpiredHistory(*map(add, astuple(self), astuple(other)))
