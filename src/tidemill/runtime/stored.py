"""How the storage of datasets stands: what is kept and why, and what would go."""

from __future__ import annotations

from dataclasses import dataclass

from tidemill.model.states import DatasetState
from tidemill.model.submission import StoredDataset


@dataclass(frozen=True, slots=True)
class Budget:
    """What datasets may hold, in bytes, and the share of it from which on some have to go."""

    bytes: int
    threshold: float

    @property
    def limit(self) -> int:
        return int(self.bytes * self.threshold)


@dataclass(frozen=True, slots=True)
class Kept:
    """A dataset that holds space, and why it is still there."""

    dataset: StoredDataset
    why: str


@dataclass(frozen=True, slots=True)
class Going:
    """A dataset that would go, and the seconds to bring it back once all that go with it are gone."""

    dataset: StoredDataset
    seconds: float


@dataclass(frozen=True, slots=True)
class Storage:
    """How storage stands. `going` is what an eviction of `amount` bytes would take."""

    budget: Budget | None
    held: int
    kept: tuple[Kept, ...]
    amount: int
    going: tuple[Going, ...]
    seconds: float  # to bring all of that back
    problem: str | None = None  # why nothing can go

    @property
    def freed(self) -> int:
        return sum(g.dataset.bytes for g in self.going)


def why_kept(dataset: StoredDataset) -> str:
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
