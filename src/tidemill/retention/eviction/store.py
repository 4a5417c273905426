"""The stored datasets, the interface of eviction algorithms, and evictions for several budgets at once.

The narrower budgets come first: evictions for the budget of a workflow count for that of the whole store. If a budget
cannot be met, all its evictable datasets are chosen, and the shortage is a problem; the others are met regardless.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tidemill.errors import EvictionFailed
from tidemill.retention.eviction.history import SubmissionHistory

Flags = NDArray[np.bool_]
Numbers = NDArray[np.int64]
Figures = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class DatasetStore:
    """The stored datasets, by their numbers in the history."""

    stored: Flags
    evictable: Numbers  # those that may be evicted: neither leaves nor pinned, nor read or awaited
    seconds: Figures  # to compute each, including missing ones
    bytes: Figures

    @property
    def evictable_bytes(self) -> float:
        """Bytes of all evictable datasets."""
        return float(self.bytes[self.evictable].sum())

    def check_amount(self, amount: float) -> None:
        """Raise `EvictionFailed` if the evictable datasets have fewer bytes."""
        problem = self.describe_shortage(amount)
        if problem is not None:
            raise EvictionFailed(problem)

    def describe_shortage(self, amount: float) -> str | None:
        """Describe why this many bytes cannot be freed; None if they can."""
        if self.evictable_bytes >= amount:
            return None
        return (
            f"{amount:.0f} bytes must be freed, but all evictable datasets have {self.evictable_bytes:.0f}, "
            f"so {amount - self.evictable_bytes:.0f} bytes are missing; "
            "wait for running work to end, delete unneeded leaves, unpin a dataset, or raise the budget"
        )


class EvictionAlgorithm(Protocol):
    """Chooses datasets to delete. A choice may depend on earlier choices, but on no other state."""

    def __init__(self) -> None: ...

    def choose_datasets(self, history: SubmissionHistory, store: DatasetStore, amount: float) -> list[int]:
        """Choose evictable datasets of at least `amount` bytes; raises `EvictionFailed` if there are not enough."""


def to_figures(values: Any) -> Figures:
    return np.array(values, dtype=np.float64)


@dataclass(frozen=True, slots=True)
class SpaceRequest:
    """A request to free bytes among these datasets; `owner` names the budget."""

    amount: float
    is_candidate: Flags
    owner: str


@dataclass(slots=True)
class EvictionChoice:
    """The datasets to evict, in order, and the requests that cannot be met."""

    evicted: list[int] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def choose_evictions(
    algorithm: EvictionAlgorithm, history: SubmissionHistory, store: DatasetStore, requests: Iterable[SpaceRequest]
) -> EvictionChoice:
    """Choose datasets so that every request is met as far as possible, each in addition to those before it."""
    choice = EvictionChoice()
    for request in requests:
        remaining = request.amount - sum(float(store.bytes[n]) for n in choice.evicted if request.is_candidate[n])
        if remaining <= 0:
            continue
        candidates = _select_candidates(store, request, choice.evicted)
        choice.evicted += algorithm.choose_datasets(history, candidates, min(remaining, candidates.evictable_bytes))
        shortage = candidates.describe_shortage(remaining)
        if shortage is not None:
            choice.problems.append(f"{request.owner}: {shortage}")
    return choice


def _select_candidates(store: DatasetStore, request: SpaceRequest, evicted: Sequence[int]) -> DatasetStore:
    """Return the store after earlier evictions, restricted to the datasets of this request."""
    stored = store.stored.copy()
    stored[list(evicted)] = False
    movable = store.evictable[request.is_candidate[store.evictable]]
    return replace(store, stored=stored, evictable=np.setdiff1d(movable, evicted))
