"""The operations on one-shot workflows, given a catalog, a store and an engine."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

from tidemill.api.documents.tasks import SourceResolver
from tidemill.errors import NotFound, RunFailed, TidemillError
from tidemill.model.block import DataFile
from tidemill.model.run import Run, RunKind, RunState
from tidemill.model.states import DatasetState
from tidemill.model.submission import StoredDataset, Submission, SubmittedAction
from tidemill.model.usage import UsageFigures, UsagePeriod
from tidemill.ports.datasets import DatasetCatalog
from tidemill.retention.usage_history import TimeResolution, UsageSplit, compute_figures
from tidemill.runtime.maintenance.store_ownership import check_store
from tidemill.runtime.oneshot.actions import ActionRunner
from tidemill.runtime.oneshot.eviction import DatasetEvictor
from tidemill.runtime.oneshot.storage_report import StorageBudgets, StorageReport
from tidemill.runtime.oneshot.submission import submit_workflow
from tidemill.runtime.runs.execution import Executor

POLL_SECONDS = 0.2
"""Seconds between polls of actions that other processes run."""

ProgressListener = Callable[[Submission], None]


@dataclass(frozen=True, slots=True)
class OneShotService:
    """Submits, runs and explains one-shot workflows, and manages their datasets."""

    executor: Executor
    sources: SourceResolver
    environment: Mapping[str, str]
    locate: Callable[[str], str]  # the path of a program or script that an action names
    place_copy: Callable[[str, Sequence[DataFile], str], bool]  # copies the files of a dataset to a path of the user
    budgets: StorageBudgets = field(default_factory=StorageBudgets)

    @property
    def datasets(self) -> DatasetCatalog:
        return self.executor.catalog.datasets

    def submit_workflow(self, text: str, user: str) -> Submission:
        """Submit a workflow, and make the requested copies of its existing datasets."""
        number = submit_workflow(self.datasets, self.sources, self.environment, text, user)
        self.place_copies(number)
        return self.datasets.read_submission(number)

    def complete_submission(self, number: int, on_progress: ProgressListener = lambda _: None) -> Submission:
        """Run the ready actions of a submission, and wait for others, to its end; raises `RunFailed` if any failed."""
        while True:
            self.place_copies(number)
            submission = self.datasets.read_submission(number)
            on_progress(submission)
            if submission.has_ended:
                _check_succeeded(submission)
                return submission
            if not self._run_ready_actions(submission):
                self._recover_dead_runs()
                self.executor.sleep(POLL_SECONDS)

    def execute_run(self, run: Run) -> bool:
        """Make one attempt at the run of an action, and copy its result to the requested locations."""
        attempted = self._build_action_runner().execute_run(run)
        if attempted:
            self.place_copies()
        return attempted

    def place_copies(self, submission: int | None = None) -> None:
        """Make the requested copies of existing datasets; one that fails does not prevent the others."""
        problems: list[TidemillError] = []
        for placement in self.datasets.list_pending_copies(submission):
            dataset = placement.dataset
            try:
                self.place_copy(dataset.identity, dataset.files, placement.path)
                self.datasets.record_copy(placement)
            except TidemillError as error:
                problems.append(error)
        if problems:
            raise problems[0]

    def find_action(self, submission: int, name: str) -> SubmittedAction:
        """Find an action of a submission by its id, or by its name if that is unique."""
        actions = self.datasets.read_submission(submission).actions
        matches = [a for a in actions if a.key == name] or [a for a in actions if a.name == name]
        if len(matches) != 1:
            labels = ", ".join(f"{a.key} ({a.name})" for a in actions[:20])
            problem = "several actions are named" if matches else "there is no action"
            raise NotFound(f"{problem} {name!r} in submission {submission}; its actions are {labels}")
        return matches[0]

    def compute_usage(
        self, period: UsagePeriod, by: TimeResolution, per: UsageSplit | None = None
    ) -> list[UsageFigures]:
        """Compute usage figures of submissions and refreshes within a period."""
        return compute_figures(self.datasets.read_usage(period), self.datasets.read_tallies(period), by, per)

    def report_storage(self, amount: int | None = None) -> StorageReport:
        """Report on storage, with the eviction that frees this many bytes; by default the next eviction."""
        return self.build_evictor().report_storage(amount)

    def find_dataset(self, name: str) -> StoredDataset:
        """Find a stored, running or pinned dataset by a prefix of its identity, or by workflow/name."""
        datasets = (d for d in self.datasets.list() if d.pinned or d.state is not DatasetState.DELETED)
        matches = [d for d in datasets if d.identity.startswith(name) or f"{d.workflow}/{d.name}" == name]
        if len(matches) != 1:
            raise NotFound(
                f"{len(matches)} datasets match {name!r}; write workflow/name, or enough of the identity that "
                "tidemill storage shows"
            )
        return matches[0]

    def drop_dataset(self, name: str) -> StoredDataset:
        """Delete a leaf."""
        dataset = self.find_dataset(name)
        self.datasets.drop(dataset.identity)
        self.build_evictor().delete_evicted()
        return dataset

    def pin_dataset(self, name: str, *, pinned: bool = True) -> StoredDataset:
        """Pin a dataset against eviction, or unpin it."""
        dataset = self.find_dataset(name)
        self.datasets.pin(dataset.identity, pinned=pinned)
        return self.find_dataset(dataset.identity)

    def build_evictor(self) -> DatasetEvictor:
        catalog, store = self.executor.catalog, self.executor.store
        check = partial(check_store, catalog, store)
        return DatasetEvictor(self.datasets, store, check, self.budgets, catalog.files.count_block_bytes)

    def _build_action_runner(self) -> ActionRunner:
        return ActionRunner(self.executor, self.sources, self.environment, self.locate)

    def _run_ready_actions(self, submission: Submission) -> bool:
        """Attempt the submission's ready actions, else one that it may wait for; True if any was attempted."""
        own_runs = {a.run.id for a in submission.actions if a.run is not None}
        runnable = [r for r in self.executor.catalog.runs.list_runnable(limit=1000) if r.kind is RunKind.ACTION]
        runner, attempted = self._build_action_runner(), False
        for run in [r for r in runnable if r.id in own_runs] or runnable[:1]:
            with suppress(TidemillError):  # the run records the error, and may be retried
                attempted = runner.execute_run(run) or attempted
        return attempted

    def _recover_dead_runs(self) -> None:
        """Reclaim runs of dead processes, and finish their deletions: new requests for the same data wait for both."""
        self.executor.catalog.runs.reclaim_expired()
        self.build_evictor().delete_evicted()


def _check_succeeded(submission: Submission) -> None:
    failed = [a for a in submission.actions if a.state in (RunState.FAILED, RunState.KILLED)]
    if failed:
        details = "\n".join(f"- {a.key} ({a.name}), run {a.run.id}: {a.run.error or a.state}" for a in failed if a.run)
        raise RunFailed(
            f"{len(failed)} of {len(submission.actions)} actions of submission {submission.id} failed:\n{details}"
        )
