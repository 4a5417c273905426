"""Evicts for several budgets at once, the narrower ones first.

Evictions for the budget of a workflow count for that of the whole store. If a budget cannot be met, all its evictable
datasets are chosen, and the shortage is a problem; the other budgets are met regardless.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from tidemill.retention.eviction.history import SubmissionHistory
from tidemill.retention.eviction.store import DatasetStore, EvictionAlgorithm, Flags


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
