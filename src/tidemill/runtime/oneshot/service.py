"""Everything that is done with one-shot workflows, for whoever has a catalog, a store and an engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from tidemill.api.documents import Sources
from tidemill.errors import NotFound
from tidemill.model.block import File
from tidemill.model.run import Run
from tidemill.model.states import DatasetState
from tidemill.model.submission import Placement, StoredDataset, Submission, SubmittedAction
from tidemill.model.usage import Period
from tidemill.retention.usage_history import Figures, Resolution, Split, figures
from tidemill.runtime.maintenance.store_ownership import check_store
from tidemill.runtime.oneshot.actions import Actor
from tidemill.runtime.oneshot.dataset_catalog import Ledger
from tidemill.runtime.oneshot.eviction import Evictor
from tidemill.runtime.oneshot.progress import Tell, Watcher
from tidemill.runtime.oneshot.storage_report import Budgets, Storage
from tidemill.runtime.oneshot.submission import Submitter
from tidemill.runtime.runs.execution import Executor


class Placer(Protocol):
    """Puts copies of datasets where users want them."""

    def place(self, identity: str, files: Sequence[File], path: str) -> bool: ...


@dataclass(frozen=True, slots=True)
class Workshop:
    """Submits, runs, explains and stores."""

    executor: Executor
    ledger: Ledger
    sources: Sources
    surroundings: Mapping[str, str]
    locate: Callable[[str], str]  # where a program or script that an action names is
    placer: Placer
    budgets: Budgets = field(default_factory=Budgets)

    def submit(self, text: str, user: str) -> Submission:
        """Take in a workflow, and put in place what is wanted of it and there already."""
        made = Submitter(self.ledger, self.sources, self.surroundings).submit(text, user)
        self._watcher().put_in_place(made.id)
        return self.ledger.submission(made.id)

    def see_through(self, number: int, tell: Tell = lambda _: None) -> Submission:
        """Run what of a submission is ready, and wait for what others run, until it has ended."""
        return self._watcher().see_through(number, tell)

    def attempt(self, run: Run) -> bool:
        """One attempt at the run of an action; what it made is put where it is wanted."""
        tried = self._actor().attempt(run)
        if tried:
            self._watcher().put_in_place()
        return tried

    def put_in_place(self) -> None:
        """Make the copies that are still missing, because somebody died before making them."""
        self._watcher().put_in_place()

    def action(self, submission: int, wanted: str) -> SubmittedAction:
        """An action of a submission by its id, or by its name if that is unique."""
        actions = self.ledger.submission(submission).actions
        found = [a for a in actions if a.key == wanted] or [a for a in actions if a.name == wanted]
        if len(found) != 1:
            known = ", ".join(f"{a.key} ({a.name})" for a in actions[:20])
            many = "several actions go by" if found else "there is no action"
            raise NotFound(f"{many} {wanted!r} in submission {submission}; its actions are {known}")
        return found[0]

    def past(self, wanted: Period, by: Resolution, per: Split | None = None) -> list[Figures]:
        """What was submitted and refreshed within a period, in figures."""
        return figures(self.ledger.past(wanted), self.ledger.tallies(wanted), by, per)

    def storage(self, amount: int | None = None) -> Storage:
        """How storage stands, and what freeing so many bytes would take; else what the next eviction would."""
        return self.evictor().storage(amount)

    def dataset(self, wanted: str) -> StoredDataset:
        """One that is there, is being made or is pinned: by the beginning of its identity, or by workflow/name."""
        known = (d for d in self.ledger.datasets() if d.pinned or d.state is not DatasetState.DELETED)
        found = [d for d in known if d.identity.startswith(wanted) or f"{d.workflow}/{d.name}" == wanted]
        if len(found) != 1:
            raise NotFound(
                f"{len(found)} datasets go by {wanted!r}; write workflow/name, or enough of the identity that "
                "tidemill storage shows"
            )
        return found[0]

    def drop(self, wanted: str) -> StoredDataset:
        """Delete a leaf."""
        found = self.dataset(wanted)
        self.ledger.drop(found.identity)
        self.evictor().delete()
        return found

    def pin(self, wanted: str, *, pinned: bool = True) -> StoredDataset:
        """Keep a dataset from being evicted, or no longer."""
        found = self.dataset(wanted)
        self.ledger.pin(found.identity, pinned=pinned)
        return self.dataset(found.identity)

    def evictor(self) -> Evictor:
        check = partial(check_store, self.executor.catalog, self.executor.store)
        return Evictor(self.ledger, self.executor.store, check, self.budgets)

    def _actor(self) -> Actor:
        return Actor(self.executor, self.ledger, self.sources, self.surroundings, self.locate)

    def _watcher(self) -> Watcher:
        return Watcher(self.ledger, self._actor(), self._place, self.evictor().delete)

    def _place(self, placement: Placement) -> None:
        self.placer.place(placement.dataset.identity, placement.dataset.files, placement.path)
