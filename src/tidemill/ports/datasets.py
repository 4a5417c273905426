"""The catalog's port for one-shot workflows. Every change is one transaction."""

from collections.abc import Collection, Iterable
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
from tidemill.model.usage import UsagePeriod, UsageRecord, UsageTally


class DatasetCatalog(Protocol):
    """Submissions and datasets."""

    def read_descriptions(self, identities: Iterable[Identity]) -> dict[Identity, Json]:
        """Read the descriptions that are recorded under these identities."""

    def read_generations(self) -> dict[Identity, int]:
        """Read the newest generation of each plain identity that was ever forced."""

    def submit_workflow(self, request: SubmissionRequest) -> int:
        """Record a workflow: decide which actions run, and create their runs. Returns the submission's number."""

    def read_submission(self, number: int) -> Submission: ...
    def list_submissions(self, *, before: int | None = None, limit: int = 20) -> list[Submission]: ...
    def read_usage(self, period: UsagePeriod) -> list[UsageRecord]:
        """Read every action submitted and every task refreshed within a period, as far as they have not expired."""

    def read_tallies(self, period: UsagePeriod) -> list[UsageTally]:
        """Read the hourly totals of expired usage records."""

    def list_submitted_actions(self, after: int) -> list[tuple[int, str, Identity]]:
        """List number, workflow and identity of every action of later submissions, parents before their children."""

    def expire_submissions(self, age: float) -> ExpiredHistory:
        """Expire submissions and events that are older than `age` seconds and no longer needed."""

    def read_action_spec(self, run: int) -> ActionSpec:
        """Read the specification of an action's run."""

    def commit(self, claim: RunClaim, result: ActionResult) -> None:
        """Commit the run of an action: its dataset becomes readable, and actions that wait for it become ready."""

    def mark_lost(self, identity: Identity) -> None:
        """Mark a dataset whose files are missing or damaged: the next request recomputes it."""

    def list_pending_copies(self, submission: int | None = None) -> list[DatasetPlacement]:
        """List the requested copies of existing datasets that are not made yet."""

    def list_output_paths(self) -> list[tuple[str, str]]:
        """List each workflow with the paths of the outputs in its newest submission."""

    def list_copies(self) -> list[tuple[str, Identity]]:
        """List the path and the dataset of every copy that was requested."""

    def record_copy(self, placement: DatasetPlacement) -> None: ...
    def read_held_bytes(self) -> dict[str, int]:
        """Read the bytes of datasets, by workflow: space is free only when the files are deleted."""

    def evict(self, dataset_ids: Collection[Identity]) -> list[Identity]:
        """Mark datasets for eviction; skips those not stored, or claimed. Returns the marked ones."""

    def drop(self, identity: Identity) -> None:
        """Delete a leaf, at its user's request."""

    def pin(self, identity: Identity, *, pinned: bool) -> None:
        """Pin a dataset against eviction, or unpin it; a pin cancels a pending eviction."""

    def list_pending_evictions(self) -> list[Identity]:
        """List the datasets that are marked for eviction and not deleted yet."""

    def begin_deletion(self, identity: Identity) -> list[str] | None:
        """Make a dataset unreadable, and return its files. None: its eviction was cancelled, or it is deleted."""

    def finish_deletion(self, identity: Identity) -> None: ...
    def list(self) -> list[StoredDataset]:
        """All known datasets, the oldest first."""
