"""What the runtime needs of the catalog for one-shot workflows. Every change is one transaction."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from tidemill.model.codec import Json
from tidemill.model.identity import Identity
from tidemill.model.run import RunClaim
from tidemill.model.submission import (
    ActionResult,
    ActionSpec,
    DatasetPlacement,
    ExpiredHistory,
    StoredDataset,
    Submission,
    SubmissionRequest,
)
from tidemill.model.usage import UsagePeriod, UsageRecord
from tidemill.retention.usage_history import UsageTally


class DatasetCatalog(Protocol):
    """Submissions and datasets."""

    def read_descriptions(self, identities: Iterable[Identity]) -> dict[Identity, Json]:
        """The descriptions that are recorded under these identities."""

    def read_generations(self) -> dict[Identity, int]:
        """The newest generation of each plain identity that was ever forced."""

    def submit_workflow(self, handed: SubmissionRequest) -> int:
        """Take in a workflow: decide what runs, and make those runs. Returns the submission's number."""

    def read_submission(self, number: int) -> Submission: ...
    def list_submissions(self, *, before: int | None = None, limit: int = 20) -> list[Submission]: ...
    def read_usage(self, wanted: UsagePeriod) -> list[UsageRecord]:
        """Every action submitted and every task refreshed within a period, as far as it is remembered."""

    def read_tallies(self, wanted: UsagePeriod) -> list[UsageTally]:
        """What is known, by the hour, of what was forgotten."""

    def list_submitted_actions(self, after: int) -> list[tuple[int, str, Identity]]:
        """Number, workflow and identity of every action of later submissions, parents before their children."""

    def expire_submissions(self, age: float) -> ExpiredHistory:
        """Forget submissions and events that are older than so many seconds and that nothing needs any more."""

    def read_action_spec(self, run: int) -> ActionSpec:
        """What the run of an action is to do."""

    def commit_dataset(self, claim: RunClaim, product: ActionResult) -> None:
        """Commit the run of an action: its dataset can be read, and those who waited for it are woken."""

    def mark_lost(self, identity: Identity) -> None:
        """A dataset's files are gone or damaged: whoever wants it next makes it again."""

    def list_pending_copies(self, submission: int | None = None) -> list[DatasetPlacement]:
        """Copies that are wanted of what is there."""

    def record_copy(self, placement: DatasetPlacement) -> None: ...
    def list_datasets(self) -> list[StoredDataset]: ...
    def read_held_bytes(self) -> dict[str, int]:
        """Bytes that datasets hold, by workflow: space is free only when the files are gone."""

    def evict_datasets(self, chosen: Iterable[Identity]) -> list[Identity]:
        """Choose datasets to go; what is not stored, or claimed, is left. Returns those that go."""

    def drop_dataset(self, identity: Identity) -> None:
        """Its user deletes a leaf."""

    def pin_dataset(self, identity: Identity, *, pinned: bool) -> None:
        """Keep a dataset from being evicted, or no longer; what was chosen to go is rescued."""

    def list_pending_evictions(self) -> list[Identity]:
        """Datasets that were chosen to go and are not gone."""

    def begin_deletion(self, identity: Identity) -> list[str] | None:
        """From now on nobody can read it; its files. None: it was rescued, or is gone."""

    def finish_deletion(self, identity: Identity) -> None: ...
