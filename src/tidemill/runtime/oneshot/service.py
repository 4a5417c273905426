"""Everything that is done with one-shot workflows, for whoever has a catalog, a store and an engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from tidemill.api.documents import SourceResolver
from tidemill.errors import NotFound
from tidemill.model.block import DataFile
from tidemill.model.run import Run
from tidemill.model.states import DatasetState
from tidemill.model.submission import DatasetPlacement, StoredDataset, Submission, SubmittedAction
from tidemill.model.usage import UsagePeriod
from tidemill.retention.usage_history import TimeResolution, UsageFigures, UsageSplit, compute_figures
from tidemill.runtime.maintenance.store_ownership import check_store
from tidemill.runtime.oneshot.actions import ActionRunner
from tidemill.runtime.oneshot.dataset_catalog import DatasetCatalog
from tidemill.runtime.oneshot.eviction import DatasetEvictor
from tidemill.runtime.oneshot.progress import SubmissionRunner, Tell
from tidemill.runtime.oneshot.storage_report import StorageBudgets, StorageReport
from tidemill.runtime.oneshot.submission import Submitter
from tidemill.runtime.runs.execution import Executor


class DatasetCopier(Protocol):
    """Puts copies of datasets where users want them."""

    def place_copy(self, identity: str, files: Sequence[DataFile], path: str) -> bool: ...


@dataclass(frozen=True, slots=True)
class OneShotService:
    """Submits, runs, explains and stores."""

    executor: Executor
    ledger: DatasetCatalog
    sources: SourceResolver
    surroundings: Mapping[str, str]
    locate: Callable[[str], str]  # where a program or script that an action names is
    placer: DatasetCopier
    budgets: StorageBudgets = field(default_factory=StorageBudgets)

    def submit_workflow(self, text: str, user: str) -> Submission:
        """Take in a workflow, and put in place what is wanted of it and there already."""
        made = Submitter(self.ledger, self.sources, self.surroundings).submit_workflow(text, user)
        self._build_submission_runner().place_copies(made.id)
        return self.ledger.read_submission(made.id)

    def complete_submission(self, number: int, tell: Tell = lambda _: None) -> Submission:
        """Run what of a submission is ready, and wait for what others run, until it has ended."""
        return self._build_submission_runner().complete_submission(number, tell)

    def attempt_run(self, run: Run) -> bool:
        """One attempt at the run of an action; what it made is put where it is wanted."""
        tried = self._build_action_runner().attempt_run(run)
        if tried:
            self._build_submission_runner().place_copies()
        return tried

    def place_copies(self) -> None:
        """Make the copies that are still missing, because somebody died before making them."""
        self._build_submission_runner().place_copies()

    def find_action(self, submission: int, wanted: str) -> SubmittedAction:
        """An action of a submission by its id, or by its name if that is unique."""
        actions = self.ledger.read_submission(submission).actions
        found = [a for a in actions if a.key == wanted] or [a for a in actions if a.name == wanted]
        if len(found) != 1:
            known = ", ".join(f"{a.key} ({a.name})" for a in actions[:20])
            many = "several actions go by" if found else "there is no action"
            raise NotFound(f"{many} {wanted!r} in submission {submission}; its actions are {known}")
        return found[0]

    def compute_usage(
        self, wanted: UsagePeriod, by: TimeResolution, per: UsageSplit | None = None
    ) -> list[UsageFigures]:
        """What was submitted and refreshed within a period, in figures."""
        return compute_figures(self.ledger.read_usage(wanted), self.ledger.read_tallies(wanted), by, per)

    def report_storage(self, amount: int | None = None) -> StorageReport:
        """How storage stands, and what freeing so many bytes would take; else what the next eviction would."""
        return self.build_evictor().report_storage(amount)

    def find_dataset(self, wanted: str) -> StoredDataset:
        """One that is there, is being made or is pinned: by the beginning of its identity, or by workflow/name."""
        known = (d for d in self.ledger.list_datasets() if d.pinned or d.state is not DatasetState.DELETED)
        found = [d for d in known if d.identity.startswith(wanted) or f"{d.workflow}/{d.name}" == wanted]
        if len(found) != 1:
            raise NotFound(
                f"{len(found)} datasets go by {wanted!r}; write workflow/name, or enough of the identity that "
                "tidemill storage shows"
            )
        return found[0]

    def drop_dataset(self, wanted: str) -> StoredDataset:
        """Delete a leaf."""
        found = self.find_dataset(wanted)
        self.ledger.drop_dataset(found.identity)
        self.build_evictor().delete_evicted()
        return found

    def pin_dataset(self, wanted: str, *, pinned: bool = True) -> StoredDataset:
        """Keep a dataset from being evicted, or no longer."""
        found = self.find_dataset(wanted)
        self.ledger.pin_dataset(found.identity, pinned=pinned)
        return self.find_dataset(found.identity)

    def build_evictor(self) -> DatasetEvictor:
        check = partial(check_store, self.executor.catalog, self.executor.store)
        return DatasetEvictor(self.ledger, self.executor.store, check, self.budgets)

    def _build_action_runner(self) -> ActionRunner:
        return ActionRunner(self.executor, self.ledger, self.sources, self.surroundings, self.locate)

    def _build_submission_runner(self) -> SubmissionRunner:
        return SubmissionRunner(
            self.ledger, self._build_action_runner(), self._place_copy, self.build_evictor().delete_evicted
        )

    def _place_copy(self, placement: DatasetPlacement) -> None:
        self.placer.place_copy(placement.dataset.identity, placement.dataset.files, placement.path)
