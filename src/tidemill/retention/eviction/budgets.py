"""Several budgets at once: what goes so that each is kept, the narrower ones first.

What goes for the budget of a workflow counts for that of the whole store. A budget that cannot be kept takes all that
may go, and what is missing is a problem; the others are kept all the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from tidemill.retention.eviction.history import SubmissionHistory
from tidemill.retention.eviction.store import DatasetStore, EvictionAlgorithm, Flags


@dataclass(frozen=True, slots=True)
class SpaceRequest:
    """So many bytes are to be freed, among these datasets; `whose` says who wants it."""

    amount: float
    among: Flags
    whose: str


@dataclass(slots=True)
class EvictionChoice:
    """What goes, in its order, and which wants cannot be met."""

    going: list[int] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def choose_evictions(
    algorithm: EvictionAlgorithm, history: SubmissionHistory, store: DatasetStore, wants: Iterable[SpaceRequest]
) -> EvictionChoice:
    """What to delete so that every want is met as far as it can be, each on top of those before it."""
    made = EvictionChoice()
    for want in wants:
        left = want.amount - sum(float(store.bytes[n]) for n in made.going if want.among[n])
        if left <= 0:
            continue
        candidates = _select_candidates(store, want, made.going)
        made.going += algorithm.choose_datasets(history, candidates, min(left, candidates.movable_bytes))
        shortage = candidates.describe_shortage(left)
        if shortage is not None:
            made.problems.append(f"{want.whose}: {shortage}")
    return made


def _select_candidates(store: DatasetStore, want: SpaceRequest, gone: Sequence[int]) -> DatasetStore:
    """What is there once those are gone, and may go for this want."""
    stored = store.stored.copy()
    stored[list(gone)] = False
    movable = store.movable[want.among[store.movable]]
    return replace(store, stored=stored, movable=np.setdiff1d(movable, gone))
