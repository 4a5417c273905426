"""How the storage of datasets stands: what is kept and why, and what would go."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tidemill.model.states import DatasetState
from tidemill.model.submission import StoredDataset


@dataclass(frozen=True, slots=True)
class StorageBudget:
    """What datasets may hold, in bytes, and the share of it from which on some have to go."""

    bytes: int
    threshold: float

    @property
    def byte_limit(self) -> int:
        return int(self.bytes * self.threshold)


@dataclass(frozen=True, slots=True)
class StorageBudgets:
    """What all datasets may hold together, and those that workflows first wanted. None: all there is."""

    store: StorageBudget | None = None
    workflows: Mapping[str, StorageBudget] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StorageShare:
    """What the datasets of one workflow, or all of them, hold, and may hold."""

    workflow: str | None  # None: all
    held: int
    budget: StorageBudget | None

    @property
    def excess_bytes(self) -> int:
        """Bytes that have to go."""
        return 0 if self.budget is None else max(self.held - self.budget.byte_limit, 0)

    @property
    def owner_name(self) -> str:
        return "the store" if self.workflow is None else f"workflow {self.workflow!r}"


@dataclass(frozen=True, slots=True)
class StorageShares:
    """What all datasets hold, and those of each workflow that has a budget."""

    store: StorageShare
    workflows: tuple[StorageShare, ...]

    @property
    def exceeded_shares(self) -> tuple[StorageShare, ...]:
        """Those that hold more than they may: workflows before the store, which what they give up counts for."""
        return tuple(share for share in (*self.workflows, self.store) if share.excess_bytes)


@dataclass(frozen=True, slots=True)
class RetainedDataset:
    """A dataset that holds space, and why it is still there."""

    dataset: StoredDataset
    why: str


@dataclass(frozen=True, slots=True)
class EvictionCandidate:
    """A dataset that would go, and the seconds to bring it back once all that go with it are gone."""

    dataset: StoredDataset
    seconds: float


@dataclass(frozen=True, slots=True)
class StorageReport:
    """How storage stands. `going` is what an eviction would take; `problems` say which budgets it cannot keep."""

    shares: StorageShares
    kept: tuple[RetainedDataset, ...]
    going: tuple[EvictionCandidate, ...]
    seconds: float  # to bring all of that back
    problems: tuple[str, ...] = ()

    @property
    def freed_bytes(self) -> int:
        return sum(g.dataset.bytes for g in self.going)


def compute_shares(held: Mapping[str, int], budgets: StorageBudgets) -> StorageShares:
    """How what workflows hold, in bytes, compares with budgets."""
    named = tuple(StorageShare(name, held.get(name, 0), budget) for name, budget in sorted(budgets.workflows.items()))
    return StorageShares(StorageShare(None, sum(held.values()), budgets.store), named)


def explain_retention(dataset: StoredDataset) -> str:
    if dataset.pinned:
        return "pinned: it stays until somebody unpins it"
    if dataset.state is DatasetState.LEAF:
        return f"leaf of {dataset.workflow}: it stays until somebody drops it"
    if dataset.state is DatasetState.PROCESSING:
        return "chosen to go"
    if dataset.state is DatasetState.DELETING:
        return "its files are being deleted"
    reading = f"{dataset.claims} to read it"
    if dataset.state is DatasetState.STORED_TO_DELETE:
        return f"goes as soon as it was read: {reading}"
    return f"needed: {reading}" if dataset.claims else "until space is short"
