"""Keeps datasets within their budgets: reports, chooses and deletes."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

import numpy as np

from tidemill.errors import EvictionFailed
from tidemill.model.identity import Identity
from tidemill.model.states import PRODUCING_STATES, STATES_WITH_FILES, DatasetState
from tidemill.model.submission import StoredDataset
from tidemill.ports.datasets import DatasetCatalog
from tidemill.ports.storage import BlockStore
from tidemill.retention.eviction import two_sided
from tidemill.retention.eviction.history import ProducedDataset, SubmissionHistory
from tidemill.retention.eviction.store import DatasetStore, to_figures
from tidemill.runtime.oneshot import storage_report as reports


@dataclass(slots=True)
class DatasetEvictor:
    """Chooses evictions by the history of submissions, which it caches, so that only new submissions are read."""

    datasets: DatasetCatalog
    store: BlockStore
    check_store: Callable[[], object]  # raises unless this catalog owns the store
    budgets: reports.StorageBudgets = field(default_factory=reports.StorageBudgets)
    count_block_bytes: Callable[[], int] = lambda: 0  # of channels; called if they have a budget
    _history: SubmissionHistory = field(default_factory=SubmissionHistory)
    _last_submission: int = 0

    def report_storage(self, amount: int | None = None) -> reports.StorageReport:
        """Report on storage, with the eviction that frees an amount; by default the next eviction."""
        datasets = self._read_datasets()
        shares = self._compute_shares(datasets)
        if amount is not None:
            return self._plan_eviction(datasets, shares, [(amount, shares.store)])
        if not shares.exceeded_shares and shares.store.budget is not None:  # nothing is over budget: show the next one
            return self._plan_eviction(datasets, shares, [(1, shares.store)])
        return self._plan_eviction(datasets, shares, [(share.excess_bytes, share) for share in shares.exceeded_shares])

    def enforce_budgets(self) -> reports.StorageReport | None:
        """Delete datasets marked earlier, and then those over budget; None if no budget is exceeded.

        If a budget cannot be met, all evictable datasets are deleted, and the budget is among the problems.
        """
        self.delete_evicted()
        return self._evict_chosen(self.report_storage()) if self.measure_shares().exceeded_shares else None

    def measure_shares(self) -> reports.StorageShares:
        """Compare the bytes that datasets use now with the budgets."""
        return self._compare_with_budgets(self.datasets.read_held_bytes())

    def _compare_with_budgets(self, used_bytes: Mapping[str, int]) -> reports.StorageShares:
        block_bytes = 0 if self.budgets.channels is None else self.count_block_bytes()
        return reports.compute_shares(used_bytes, self.budgets, block_bytes)

    def free_bytes(self, amount: int) -> reports.StorageReport:
        """Delete the datasets that are cheapest to lose; if too few, raise `EvictionFailed` and delete none."""
        report = self.report_storage(amount)
        if report.problems:
            raise EvictionFailed(report.problems[0])
        return self._evict_chosen(report)

    def _evict_chosen(self, report: reports.StorageReport) -> reports.StorageReport:
        if report.evictions:
            self.datasets.evict([g.dataset.identity for g in report.evictions])
            self.delete_evicted()
        return report

    def delete_evicted(self) -> int:
        """Delete all datasets that any process marked for eviction; returns how many were deleted.

        A dataset is unreadable before its first file is deleted, and counts as deleted only after its last.
        """
        deleted, pending = 0, self.datasets.list_pending_evictions()
        if pending:
            self.check_store()
        for identity in pending:
            paths = self.datasets.begin_deletion(identity)
            if paths is not None:
                self.store.delete_files(paths)
                self.datasets.finish_deletion(identity)
                deleted += 1
        return deleted

    def _read_datasets(self) -> dict[Identity, StoredDataset]:
        """Read all current datasets, after the graphs, so that all datasets of the graphs are included."""
        new_actions = self.datasets.list_submitted_actions(self._last_submission)
        datasets = {d.identity: d for d in self.datasets.list()}
        self._update_history(new_actions, datasets)
        return datasets

    def _compute_shares(self, datasets: Mapping[Identity, StoredDataset]) -> reports.StorageShares:
        used_bytes: Counter[str] = Counter()
        for dataset in _list_stored(datasets):
            used_bytes[dataset.workflow] += dataset.bytes
        return self._compare_with_budgets(used_bytes)

    def _plan_eviction(
        self,
        datasets: Mapping[Identity, StoredDataset],
        shares: reports.StorageShares,
        amounts: Sequence[tuple[int, reports.StorageShare]],
    ) -> reports.StorageReport:
        """Report on storage, with the eviction that frees these amounts."""
        retained = tuple(
            reports.RetainedDataset(d, reports.explain_retention(d))
            for d in sorted(_list_stored(datasets), key=lambda d: -d.bytes)
        )
        if not amounts:
            return reports.StorageReport(shares, retained, (), 0.0)
        stored = self._build_store(datasets)
        requests = [self._build_request(datasets, *amount) for amount in amounts]
        choice = two_sided.choose_evictions(self._history, stored, requests)
        recompute_seconds = two_sided.estimate_recompute_seconds(self._history, stored, choice.evicted)
        chosen = (datasets[self._history.identities[n]] for n in choice.evicted)
        candidates = tuple(reports.EvictionCandidate(d, s) for d, s in zip(chosen, recompute_seconds, strict=True))
        seconds = two_sided.sum_recompute_seconds(self._history, stored, choice.evicted)
        return reports.StorageReport(shares, retained, candidates, seconds, tuple(choice.problems))

    def _build_request(
        self, datasets: Mapping[Identity, StoredDataset], amount: int, share: reports.StorageShare
    ) -> two_sided.SpaceRequest:
        datasets_by_number = (datasets.get(i) for i in self._history.identities)
        is_candidate = [d is not None and share.workflow in (None, d.workflow) for d in datasets_by_number]
        return two_sided.SpaceRequest(amount, np.array(is_candidate, dtype=np.bool_), share.owner_name)

    def _update_history(
        self, new_actions: Iterable[tuple[int, str, Identity]], datasets: Mapping[Identity, StoredDataset]
    ) -> None:
        """Add new submissions to the history, unless they expired while they were read."""
        for (number, workflow), rows in groupby(new_actions, key=lambda row: row[:2]):
            graph = dict.fromkeys(identity for _, _, identity in rows)
            if graph.keys() <= datasets.keys():
                members = (datasets[identity] for identity in graph)
                produced = [ProducedDataset(d.identity, d.parents, d.kind, d.seconds, max(d.bytes, 1)) for d in members]
                self._history.record_submission(workflow, produced)
            self._last_submission = number

    def _build_store(self, datasets: Mapping[Identity, StoredDataset]) -> DatasetStore:
        """Build the store with current figures: they were unknown when a dataset was first submitted."""
        current = [datasets.get(i) for i in self._history.identities]  # None: deleted, and expired since
        unused = [(n, d) for n, d in enumerate(current) if d is not None and not d.claims and not d.pinned]
        evictable = [n for n, d in unused if d.state is DatasetState.STORED]
        seconds, sizes = self._history.seconds, self._history.bytes
        stored = [d is not None and d.state in STATES_WITH_FILES | PRODUCING_STATES for d in current]
        return DatasetStore(
            np.array(stored, dtype=np.bool_),
            np.array(evictable, dtype=np.int64),
            to_figures([seconds[n] if d is None else d.seconds for n, d in enumerate(current)]),
            to_figures([sizes[n] if d is None else max(d.bytes, 1) for n, d in enumerate(current)]),
        )


def _list_stored(datasets: Mapping[Identity, StoredDataset]) -> list[StoredDataset]:
    return [d for d in datasets.values() if d.state in STATES_WITH_FILES]
