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
from tidemill.retention.eviction import ALGORITHMS, DEFAULT, EvictionAlgorithm
from tidemill.retention.eviction.budgets import SpaceRequest, choose_evictions
from tidemill.retention.eviction.history import ProducedDataset, SubmissionHistory
from tidemill.retention.eviction.store import DatasetStore, to_figures
from tidemill.retention.eviction.two_sided import estimate_recompute_seconds, sum_recompute_seconds
from tidemill.runtime.oneshot.dataset_catalog import DatasetCatalog
from tidemill.runtime.oneshot.storage_report import (
    EvictionCandidate,
    RetainedDataset,
    StorageBudgets,
    StorageReport,
    StorageShare,
    StorageShares,
    compute_shares,
    explain_retention,
)


@dataclass(slots=True)
class DatasetEvictor:
    """Decides by the history of submissions. It remembers that history, so that only what is new is read again."""

    ledger: DatasetCatalog
    store: BlockStore
    check_store: Callable[[], object]  # raises if the store is not this catalog's
    budgets: StorageBudgets = field(default_factory=StorageBudgets)
    algorithm: EvictionAlgorithm = field(default_factory=ALGORITHMS[DEFAULT])
    _history: SubmissionHistory = field(default_factory=SubmissionHistory)
    _upto: int = 0

    def report_storage(self, amount: int | None = None) -> StorageReport:
        """How storage stands, and what freeing an amount would take; else what the next eviction would."""
        datasets = self._read_datasets()
        found = self._compute_shares(datasets)
        if amount is not None:
            return self._plan_eviction(datasets, found, [(amount, found.store)])
        if (
            not found.exceeded_shares and found.store.budget is not None
        ):  # something goes next, though nothing has to go yet
            return self._plan_eviction(datasets, found, [(1, found.store)])
        return self._plan_eviction(datasets, found, [(share.excess_bytes, share) for share in found.exceeded_shares])

    def enforce_budgets(self) -> StorageReport | None:
        """Delete what was chosen before, and then what budgets do not allow; None if nothing has to go.

        A budget that cannot be kept takes all that may go, and is among the problems.
        """
        self.delete_evicted()
        return (
            self._evict_chosen(self.report_storage())
            if compute_shares(self.ledger.read_held_bytes(), self.budgets).exceeded_shares
            else None
        )

    def free_bytes(self, amount: int) -> StorageReport:
        """Delete what costs least to lose; raises `CannotFree`, and deletes nothing, if that does not cover it."""
        found = self.report_storage(amount)
        if found.problems:
            raise CannotFree(found.problems[0])
        return self._evict_chosen(found)

    def _evict_chosen(self, found: StorageReport) -> StorageReport:
        if found.going:
            self.ledger.evict_datasets(g.dataset.identity for g in found.going)
            self.delete_evicted()
        return found

    def delete_evicted(self) -> int:
        """Delete whatever was chosen to go, by whomever; returns how many datasets went.

        A dataset is out of everybody's sight before its first file goes, and gone only after its last.
        """
        gone, going = 0, self.ledger.list_pending_evictions()
        if going:
            self.check_store()
        for identity in going:
            paths = self.ledger.begin_deletion(identity)
            if paths is not None:
                self.store.delete_files(paths)
                self.ledger.finish_deletion(identity)
                gone += 1
        return gone

    def _read_datasets(self) -> dict[Identity, StoredDataset]:
        """All datasets as they are now. They are read after the graphs, so that all that is in those is there."""
        new = self.ledger.list_submitted_actions(self._upto)
        datasets = {d.identity: d for d in self.ledger.list_datasets()}
        self._update_history(new, datasets)
        return datasets

    def _compute_shares(self, datasets: Mapping[Identity, StoredDataset]) -> StorageShares:
        held: Counter[str] = Counter()
        for dataset in _list_stored(datasets):
            held[dataset.workflow] += dataset.bytes
        return compute_shares(held, self.budgets)

    def _plan_eviction(
        self,
        datasets: Mapping[Identity, StoredDataset],
        found: StorageShares,
        wanted: Sequence[tuple[int, StorageShare]],
    ) -> StorageReport:
        """How storage stands, and what goes if these want so many bytes freed."""
        kept = tuple(
            RetainedDataset(d, explain_retention(d)) for d in sorted(_list_stored(datasets), key=lambda d: -d.bytes)
        )
        if not wanted:
            return StorageReport(found, kept, (), 0.0)
        stored = self._build_store(datasets)
        choice = choose_evictions(
            self.algorithm, self._history, stored, [self._build_request(datasets, *w) for w in wanted]
        )
        back = estimate_recompute_seconds(self._history, stored, choice.going)
        chosen = (datasets[self._history.identities[n]] for n in choice.going)
        going = tuple(EvictionCandidate(d, s) for d, s in zip(chosen, back, strict=True))
        seconds = sum_recompute_seconds(self._history, stored, choice.going)
        return StorageReport(found, kept, going, seconds, tuple(choice.problems))

    def _build_request(
        self, datasets: Mapping[Identity, StoredDataset], amount: int, share: StorageShare
    ) -> SpaceRequest:
        known = (datasets.get(i) for i in self._history.identities)
        among = [d is not None and share.workflow in (None, d.workflow) for d in known]
        return SpaceRequest(amount, np.array(among, dtype=np.bool_), share.owner_name)

    def _update_history(
        self, new: Iterable[tuple[int, str, Identity]], datasets: Mapping[Identity, StoredDataset]
    ) -> None:
        """Take in what was submitted since the last time, unless it was forgotten while one looked."""
        for (number, workflow), rows in groupby(new, key=lambda row: row[:2]):
            graph = dict.fromkeys(identity for _, _, identity in rows)
            if graph.keys() <= datasets.keys():
                self._history.record_submission(workflow, [_build_history_entry(datasets[i]) for i in graph])
            self._upto = number

    def _build_store(self, datasets: Mapping[Identity, StoredDataset]) -> DatasetStore:
        """Figures as they are now: when a dataset was first submitted, nobody knew them."""
        known = [datasets.get(i) for i in self._history.identities]  # None: gone, and forgotten since
        movable = [n for n, d in enumerate(known) if d is not None and _is_evictable(d)]
        seconds, sizes = self._history.seconds, self._history.bytes
        return DatasetStore(
            np.array([d is not None and d.state in HOLDS_FILES | PRODUCED for d in known], dtype=np.bool_),
            np.array(movable, dtype=np.int64),
            to_figures([seconds[n] if d is None else d.seconds for n, d in enumerate(known)]),
            to_figures([sizes[n] if d is None else max(d.bytes, 1) for n, d in enumerate(known)]),
        )


def _list_stored(datasets: Mapping[Identity, StoredDataset]) -> list[StoredDataset]:
    return [d for d in datasets.values() if d.state in HOLDS_FILES]


def _is_evictable(dataset: StoredDataset) -> bool:
    return dataset.state is DatasetState.STORED and not dataset.claims and not dataset.pinned


def _build_history_entry(dataset: StoredDataset) -> ProducedDataset:
    return ProducedDataset(dataset.identity, dataset.parents, dataset.kind, dataset.seconds, max(dataset.bytes, 1))
