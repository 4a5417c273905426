"""Several budgets at once: what goes so that each is kept, the narrower ones first.

What goes for the budget of a workflow counts for that of the whole store. A budget that cannot be kept takes all that
may go, and what is missing is a problem; the others are kept all the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from tidemill.retention.eviction.history import History
from tidemill.retention.eviction.store import Algorithm, Flags, Store


@dataclass(frozen=True, slots=True)
class Want:
    """So many bytes are to be freed, among these datasets; `whose` says who wants it."""

    amount: float
    among: Flags
    whose: str


@dataclass(slots=True)
class Choice:
    """What goes, in its order, and which wants cannot be met."""

    going: list[int] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def choose(algorithm: Algorithm, history: History, store: Store, wants: Iterable[Want]) -> Choice:
    """What to delete so that every want is met as far as it can be, each on top of those before it."""
    made = Choice()
    for want in wants:
        left = want.amount - sum(float(store.bytes[n]) for n in made.going if want.among[n])
        if left <= 0:
            continue
        candidates = _among(store, want, made.going)
        made.going += algorithm.choose(history, candidates, min(left, candidates.most))
        shortage = candidates.shortage(left)
        if shortage is not None:
            made.problems.append(f"{want.whose}: {shortage}")
    return made


def _among(store: Store, want: Want, gone: Sequence[int]) -> Store:
    """What is there once those are gone, and may go for this want."""
    stored = store.stored.copy()
    stored[list(gone)] = False
    movable = store.movable[want.among[store.movable]]
    return replace(store, stored=stored, movable=np.setdiff1d(movable, gone))
