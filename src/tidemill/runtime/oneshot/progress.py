"""Completes a submission: runs its ready actions, and waits for those that other processes run."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from tidemill.errors import RunFailed, TidemillError
from tidemill.model.run import RunKind, RunState
from tidemill.model.submission import DatasetPlacement, Submission
from tidemill.ports.datasets import DatasetCatalog
from tidemill.runtime.oneshot.actions import ActionRunner

POLL_SECONDS = 0.2
"""Seconds between polls of actions that other processes run."""

CopyPlacer = Callable[[DatasetPlacement], None]
ProgressListener = Callable[[Submission], None]


@dataclass(frozen=True, slots=True)
class SubmissionRunner:
    """Works on submissions in this process, beside any servers."""

    datasets: DatasetCatalog
    actor: ActionRunner
    place: CopyPlacer
    delete: Callable[[], object]  # deletes the evicted datasets

    def complete_submission(self, number: int, on_progress: ProgressListener = lambda _: None) -> Submission:
        """Run and wait until a submission has ended; raises `RunFailed` if any of its actions failed."""
        while True:
            self.place_copies(number)
            submission = self.datasets.read_submission(number)
            on_progress(submission)
            if submission.has_ended:
                break
            if not self._run_ready_actions(submission):
                self._recover_dead_runs()
                self.actor.executor.sleep(POLL_SECONDS)
        _check_succeeded(submission)
        return submission

    def _recover_dead_runs(self) -> None:
        """Reclaim runs of dead processes, and finish their deletions: new requests for the same data wait for both."""
        self.actor.executor.catalog.runs.reclaim_expired()
        self.delete()

    def place_copies(self, number: int | None = None) -> None:
        """Make the requested copies of existing datasets; one that fails does not prevent the others."""
        problems: list[TidemillError] = []
        for placement in self.datasets.list_pending_copies(number):
            try:
                self.place(placement)
                self.datasets.record_copy(placement)
            except TidemillError as error:
                problems.append(error)
        if problems:
            raise problems[0]

    def _run_ready_actions(self, submission: Submission) -> bool:
        """Attempt the submission's ready actions, else one that it may wait for; True if any was attempted."""
        own_runs = {a.run.id for a in submission.actions if a.run is not None}
        runnable = [r for r in self.actor.executor.catalog.runs.list_runnable(limit=1000) if r.kind is RunKind.ACTION]
        attempted = False
        for run in [r for r in runnable if r.id in own_runs] or runnable[:1]:
            with suppress(TidemillError):  # the run records the error, and may be retried
                attempted = self.actor.execute_run(run) or attempted
        return attempted


def _check_succeeded(submission: Submission) -> None:
    failed = [a for a in submission.actions if a.state in (RunState.FAILED, RunState.KILLED)]
    if failed:
        details = "\n".join(f"- {a.key} ({a.name}), run {a.run.id}: {a.run.error or a.state}" for a in failed if a.run)
        raise RunFailed(
            f"{len(failed)} of {len(submission.actions)} actions of submission {submission.id} failed:\n{details}"
        )
