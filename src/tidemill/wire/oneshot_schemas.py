"""Documents about one-shot workflows: submissions, usage history and stored datasets."""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from tidemill.wire.document import ResponseDocument, Seconds, Source, Timestamp
from tidemill.wire.schemas import RunDocument


class ActionDocument(ResponseDocument):
    """An action of a submission; `verdict` and `reason` explain whether its dataset was reused."""

    id: Annotated[str, Source("key")]
    name: str
    type: Annotated[str, Source("kind")]
    identity: str
    state: str
    verdict: str
    reason: str
    saved_seconds: float
    path: str | None
    copied_at: Timestamp | None
    bytes: int
    run: RunDocument | None


class SubmissionDocument(ResponseDocument):
    id: int
    workflow: str
    user: str
    at: Timestamp
    state: str
    actions: list[ActionDocument]


class SubmissionListDocument(ResponseDocument):
    submissions: list[SubmissionDocument]


class UsageFiguresDocument(ResponseDocument):
    """The usage within a period, of the `group` (a user, workflow or task) or of all; `saved_seconds` by reuse."""

    begin: Timestamp
    group: str | None
    submissions: int
    actions: int
    computed: int
    hits: int
    hit_rate: Annotated[float, AfterValidator(lambda value: round(value, 4))]
    refreshes: int
    failed: int
    seconds: Seconds
    saved_seconds: Seconds
    bytes: int


class UsageHistoryDocument(ResponseDocument):
    by: Literal["minute", "hour", "day", "week", "month"]
    per: Literal["user", "workflow", "task"] | None
    figures: list[UsageFiguresDocument]


class DatasetDocument(ResponseDocument):
    identity: str
    workflow: str
    name: str
    state: str
    claims: int
    pinned: bool
    bytes: int
    seconds: Seconds
    computed_at: Timestamp | None
    used_at: Timestamp | None


class RetainedDatasetDocument(DatasetDocument):
    reason: str


class EvictionCandidateDocument(DatasetDocument):
    recompute_seconds: Seconds


class StorageUsageDocument(ResponseDocument):
    """Storage usage; `limit` is the number of bytes above which space is freed."""

    used_bytes: int
    budget: Annotated[int | None, Source(lambda share: share.budget and share.budget.byte_budget)]
    limit: Annotated[int | None, Source(lambda share: share.budget and share.budget.byte_limit)]


class WorkflowStorageDocument(StorageUsageDocument):
    """The storage of the datasets that a workflow was the first to request."""

    workflow: str


class StorageDocument(StorageUsageDocument):
    """The stored datasets with reasons, those that the next eviction would delete, and the seconds to recompute them.

    `problems` lists the budgets that cannot be met, with reasons.
    """

    workflows: list[WorkflowStorageDocument]
    channels: Annotated[
        StorageUsageDocument | None, Field(description="The blocks of channels; null: they have no budget.")
    ]
    retained: list[RetainedDatasetDocument]
    evicted: bool
    evictions: list[EvictionCandidateDocument]
    freed_bytes: int
    recompute_seconds: Seconds
    problems: list[str]


Document = dict[str, Any]
"""A one-shot workflow as described in `docs/schemas/one-shot-workflow.json`."""
