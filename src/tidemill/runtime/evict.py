"""Keeping datasets within their budget: what is kept and why, what would go next, and deleting it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import groupby

import numpy as np

from tidemill.errors import CannotFree
from tidemill.model.identity import Identity
from tidemill.model.states import HOLDS_FILES, PRODUCED, DatasetState
from tidemill.model.submission import StoredDataset
from tidemill.ports import BlockStore
from tidemill.retain.eviction import ALGORITHMS, DEFAULT, Algorithm
from tidemill.retain.eviction.back import seconds_back, seconds_for_all
from tidemill.retain.eviction.history import History, Made
from tidemill.retain.eviction.store import Store, figures
from tidemill.runtime.ledger import Ledger
from tidemill.runtime.stored import Budget, Going, Kept, Storage, why_kept


@dataclass(slots=True)
class Evictor:
    """Decides by the history of submissions. It remembers that history, so that only what is new is read again."""

    ledger: Ledger
    store: BlockStore
    budget: Budget | None = None
    algorithm: Algorithm = field(default_factory=ALGORITHMS[DEFAULT])
    _history: History = field(default_factory=History)
    _upto: int = 0

    def storage(self, amount: int | None = None) -> Storage:
        """How storage stands, and what freeing an amount would take; else what the next eviction would."""
        new = self.ledger.graphs(self._upto)
        datasets = {d.identity: d for d in self.ledger.datasets()}  # later, so that it has all that is in the graphs
        self._learn(new, datasets)
        there = [d for d in datasets.values() if d.state in HOLDS_FILES]
        held = sum(d.bytes for d in there)
        wanted = self._next_amount(held) if amount is None else amount
        kept = tuple(Kept(d, why_kept(d)) for d in sorted(there, key=lambda d: -d.bytes))
        try:
            going, seconds = self._choose(datasets, wanted)
        except CannotFree as error:
            return Storage(self.budget, held, kept, wanted, (), 0.0, str(error))
        return Storage(self.budget, held, kept, wanted, going, seconds)

    def keep_within(self) -> Storage | None:
        """Delete what was chosen before, and then as much as is held above the limit; None if nothing has to go.

        Raises `CannotFree`, and deletes nothing more, if what may go does not cover it.
        """
        self.delete()
        over = 0 if self.budget is None else self.ledger.held() - self.budget.limit
        return self.free(over) if over > 0 else None

    def free(self, amount: int) -> Storage:
        """Delete what costs least to lose."""
        found = self.storage(amount)
        if found.problem is not None:
            raise CannotFree(found.problem)
        self.ledger.evict(g.dataset.identity for g in found.going)
        self.delete()
        return found

    def delete(self) -> int:
        """Delete whatever was chosen to go, by whomever; returns how many datasets went.

        A dataset is out of everybody's sight before its first file goes, and gone only after its last.
        """
        gone = 0
        for identity in self.ledger.going():
            paths = self.ledger.begin_deleting(identity)
            if paths is not None:
                self.store.delete(paths)
                self.ledger.deleted(identity)
                gone += 1
        return gone

    def _next_amount(self, held: int) -> int:
        """Something goes next, though nothing may have to go yet."""
        return 0 if self.budget is None else max(held - self.budget.limit, 1)

    def _choose(self, datasets: Mapping[Identity, StoredDataset], amount: int) -> tuple[tuple[Going, ...], float]:
        if amount <= 0:
            return (), 0.0
        store = self._stored(datasets)
        chosen = self.algorithm.choose(self._history, store, amount)
        back = seconds_back(self._history, store, chosen)
        found = (datasets[self._history.identities[n]] for n in chosen)
        going = tuple(Going(d, s) for d, s in zip(found, back, strict=True))
        return going, seconds_for_all(self._history, store, chosen)

    def _learn(self, new: Iterable[tuple[int, str, Identity]], datasets: Mapping[Identity, StoredDataset]) -> None:
        """Take in what was submitted since the last time."""
        for (number, workflow), rows in groupby(new, key=lambda row: row[:2]):
            graph = dict.fromkeys(identity for _, _, identity in rows)
            self._history.submit(workflow, [_made(datasets[i]) for i in graph])
            self._upto = number

    def _stored(self, datasets: Mapping[Identity, StoredDataset]) -> Store:
        """Figures as they are now: when a dataset was first submitted, nobody knew them."""
        known = [datasets[i] for i in self._history.identities]
        movable = [n for n, d in enumerate(known) if d.state is DatasetState.STORED and not d.claims]
        return Store(
            np.array([d.state in HOLDS_FILES or d.state in PRODUCED for d in known], dtype=np.bool_),
            np.array(movable, dtype=np.int64),
            figures([d.seconds for d in known]),
            figures([max(d.bytes, 1) for d in known]),
        )


def _made(dataset: StoredDataset) -> Made:
    return Made(dataset.identity, dataset.parents, dataset.kind, dataset.seconds, max(dataset.bytes, 1))
