"""Seeing a submission through: running what of it is ready, and waiting for what others run."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from tidemill.errors import RunFailed, TidemillError
from tidemill.model.run import RunKind, RunState
from tidemill.model.submission import DatasetPlacement, Submission
from tidemill.runtime.oneshot.actions import ActionRunner
from tidemill.runtime.oneshot.dataset_catalog import DatasetCatalog

PAUSE = 0.2
"""Seconds between looks at what others run."""

Place = Callable[[DatasetPlacement], None]
Tell = Callable[[Submission], None]


@dataclass(frozen=True, slots=True)
class SubmissionRunner:
    """Works on submissions in this process, beside whatever servers there are."""

    ledger: DatasetCatalog
    actor: ActionRunner
    place: Place
    delete: Callable[[], object]  # what was chosen to go

    def complete_submission(self, number: int, tell: Tell = lambda _: None) -> Submission:
        """Run and wait until a submission has ended; raises `RunFailed` if some of it came to nothing."""
        while True:
            self.place_copies(number)
            found = self.ledger.read_submission(number)
            tell(found)
            if found.has_ended:
                break
            if not self._run_ready_actions(found):
                self._recover_dead_runs()
                self.actor.executor.sleep(PAUSE)
        _check_succeeded(found)
        return found

    def _recover_dead_runs(self) -> None:
        """Give up runs whose process is gone, and finish its deletions: what is wanted again waits for both."""
        self.actor.executor.catalog.reclaim_expired_runs()
        self.delete()

    def place_copies(self, number: int | None = None) -> None:
        """Make the copies that users want of what is there; one that cannot be made keeps no other from it."""
        problems: list[TidemillError] = []
        for placement in self.ledger.list_pending_copies(number):
            try:
                self.place(placement)
                self.ledger.record_copy(placement)
            except TidemillError as error:
                problems.append(error)
        if problems:
            raise problems[0]

    def _run_ready_actions(self, submission: Submission) -> bool:
        """Try what may be run of it, else something that it may wait for; True if anything was tried."""
        own = {a.run.id for a in submission.actions if a.run is not None}
        found = [r for r in self.actor.executor.catalog.list_runnable_runs(limit=1000) if r.kind is RunKind.ACTION]
        tried = False
        for run in [r for r in found if r.id in own] or found[:1]:
            with suppress(TidemillError):  # the run has the error, and may be tried again
                tried = self.actor.attempt_run(run) or tried
        return tried


def _check_succeeded(submission: Submission) -> None:
    bad = [a for a in submission.actions if a.state in (RunState.FAILED, RunState.KILLED)]
    if bad:
        told = "\n".join(f"- {a.key} ({a.name}), run {a.run.id}: {a.run.error or a.state}" for a in bad if a.run)
        raise RunFailed(
            f"{len(bad)} of {len(submission.actions)} actions of submission {submission.id} failed:\n{told}"
        )
