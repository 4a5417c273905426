"""Keeping datasets within their budgets: what is kept and why, what would go next, and deleting it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

import numpy as np

from tidemill.errors import CannotFree
from tidemill.model.identity import Identity
from tidemill.model.states import HOLDS_FILES, PRODUCED, DatasetState
from tidemill.model.submission import StoredDataset
from tidemill.ports.storage import BlockStore
from tidemill.retention.eviction import ALGORITHMS, DEFAULT, Algorithm
from tidemill.retention.eviction.budgets import Want, choose
from tidemill.retention.eviction.history import History, Made
from tidemill.retention.eviction.store import Store, figures
from tidemill.retention.eviction.two_sided import seconds_back, seconds_for_all
from tidemill.runtime.oneshot.dataset_catalog import Ledger
from tidemill.runtime.oneshot.storage_report import Budgets, Going, Kept, Share, Shares, Storage, shares, why_kept


@dataclass(slots=True)
class Evictor:
    """Decides by the history of submissions. It remembers that history, so that only what is new is read again."""

    ledger: Ledger
    store: BlockStore
    check_store: Callable[[], object]  # raises if the store is not this catalog's
    budgets: Budgets = field(default_factory=Budgets)
    algorithm: Algorithm = field(default_factory=ALGORITHMS[DEFAULT])
    _history: History = field(default_factory=History)
    _upto: int = 0

    def storage(self, amount: int | None = None) -> Storage:
        """How storage stands, and what freeing an amount would take; else what the next eviction would."""
        datasets = self._looked()
        found = self._shares(datasets)
        if amount is not None:
            return self._outlook(datasets, found, [(amount, found.store)])
        if not found.over and found.store.budget is not None:  # something goes next, though nothing has to go yet
            return self._outlook(datasets, found, [(1, found.store)])
        return self._outlook(datasets, found, [(share.over, share) for share in found.over])

    def keep_within(self) -> Storage | None:
        """Delete what was chosen before, and then what budgets do not allow; None if nothing has to go.

        A budget that cannot be kept takes all that may go, and is among the problems.
        """
        self.delete()
        return self._deleted(self.storage()) if shares(self.ledger.held(), self.budgets).over else None

    def free(self, amount: int) -> Storage:
        """Delete what costs least to lose; raises `CannotFree`, and deletes nothing, if that does not cover it."""
        found = self.storage(amount)
        if found.problems:
            raise CannotFree(found.problems[0])
        return self._deleted(found)

    def _deleted(self, found: Storage) -> Storage:
        if found.going:
            self.ledger.evict(g.dataset.identity for g in found.going)
            self.delete()
        return found

    def delete(self) -> int:
        """Delete whatever was chosen to go, by whomever; returns how many datasets went.

        A dataset is out of everybody's sight before its first file goes, and gone only after its last.
        """
        gone, going = 0, self.ledger.going()
        if going:
            self.check_store()
        for identity in going:
            paths = self.ledger.begin_deleting(identity)
            if paths is not None:
                self.store.delete(paths)
                self.ledger.deleted(identity)
                gone += 1
        return gone

    def _looked(self) -> dict[Identity, StoredDataset]:
        """All datasets as they are now. They are read after the graphs, so that all that is in those is there."""
        new = self.ledger.graphs(self._upto)
        datasets = {d.identity: d for d in self.ledger.datasets()}
        self._learn(new, datasets)
        return datasets

    def _shares(self, datasets: Mapping[Identity, StoredDataset]) -> Shares:
        held: Counter[str] = Counter()
        for dataset in _there(datasets):
            held[dataset.workflow] += dataset.bytes
        return shares(held, self.budgets)

    def _outlook(
        self, datasets: Mapping[Identity, StoredDataset], found: Shares, wanted: Sequence[tuple[int, Share]]
    ) -> Storage:
        """How storage stands, and what goes if these want so many bytes freed."""
        kept = tuple(Kept(d, why_kept(d)) for d in sorted(_there(datasets), key=lambda d: -d.bytes))
        if not wanted:
            return Storage(found, kept, (), 0.0)
        stored = self._stored(datasets)
        choice = choose(self.algorithm, self._history, stored, [self._want(datasets, *w) for w in wanted])
        back = seconds_back(self._history, stored, choice.going)
        chosen = (datasets[self._history.identities[n]] for n in choice.going)
        going = tuple(Going(d, s) for d, s in zip(chosen, back, strict=True))
        seconds = seconds_for_all(self._history, stored, choice.going)
        return Storage(found, kept, going, seconds, tuple(choice.problems))

    def _want(self, datasets: Mapping[Identity, StoredDataset], amount: int, share: Share) -> Want:
        known = (datasets.get(i) for i in self._history.identities)
        among = [d is not None and share.workflow in (None, d.workflow) for d in known]
        return Want(amount, np.array(among, dtype=np.bool_), share.whose)

    def _learn(self, new: Iterable[tuple[int, str, Identity]], datasets: Mapping[Identity, StoredDataset]) -> None:
        """Take in what was submitted since the last time, unless it was forgotten while one looked."""
        for (number, workflow), rows in groupby(new, key=lambda row: row[:2]):
            graph = dict.fromkeys(identity for _, _, identity in rows)
            if graph.keys() <= datasets.keys():
                self._history.submit(workflow, [_made(datasets[i]) for i in graph])
            self._upto = number

    def _stored(self, datasets: Mapping[Identity, StoredDataset]) -> Store:
        """Figures as they are now: when a dataset was first submitted, nobody knew them."""
        known = [datasets.get(i) for i in self._history.identities]  # None: gone, and forgotten since
        movable = [n for n, d in enumerate(known) if d is not None and _may_go(d)]
        seconds, sizes = self._history.seconds, self._history.bytes
        return Store(
            np.array([d is not None and d.state in HOLDS_FILES | PRODUCED for d in known], dtype=np.bool_),
            np.array(movable, dtype=np.int64),
            figures([seconds[n] if d is None else d.seconds for n, d in enumerate(known)]),
            figures([sizes[n] if d is None else max(d.bytes, 1) for n, d in enumerate(known)]),
        )


def _there(datasets: Mapping[Identity, StoredDataset]) -> list[StoredDataset]:
    return [d for d in datasets.values() if d.state in HOLDS_FILES]


def _may_go(dataset: StoredDataset) -> bool:
    return dataset.state is DatasetState.STORED and not dataset.claims and not dataset.pinned


def _made(dataset: StoredDataset) -> Made:
    return Made(dataset.identity, dataset.parents, dataset.kind, dataset.seconds, max(dataset.bytes, 1))
