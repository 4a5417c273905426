"""Documents about one-shot workflows: submissions, their history, and the datasets that are kept."""

from __future__ import annotations

from typing import Any, Literal

from tidemill.wire.schemas import Moment, ResponseDocument, RunDocument


class ActionDocument(ResponseDocument):
    """`verdict` and `why` say whether it was reused; `saved` are seconds."""

    id: str
    name: str
    type: str
    identity: str
    state: str
    verdict: str
    why: str
    saved: float
    path: str | None
    placed: Moment | None
    bytes: int
    run: RunDocument | None


class SubmissionDocument(ResponseDocument):
    id: int
    workflow: str
    user: str
    at: Moment
    state: str
    actions: list[ActionDocument]


class SubmissionListDocument(ResponseDocument):
    submissions: list[SubmissionDocument]


class UsageFiguresDocument(ResponseDocument):
    """What was done within a period, `of` all or of one; `seconds` of computing, and how many of them reuse saved."""

    begin: Moment
    of: str | None
    submissions: int
    actions: int
    computed: int
    hits: int
    hit_rate: float
    refreshes: int
    failed: int
    seconds: float
    saved: float
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
    seconds: float
    made: Moment | None
    used: Moment | None


class RetainedDatasetDocument(DatasetDocument):
    why: str


class EvictionCandidateDocument(DatasetDocument):
    seconds_back: float


class StorageUsageDocument(ResponseDocument):
    """`limit`: the bytes from which on something is evicted."""

    held: int
    budget: int | None
    limit: int | None


class WorkflowStorageDocument(StorageUsageDocument):
    """What the datasets hold that a workflow was the first to want."""

    workflow: str


class StorageDocument(StorageUsageDocument):
    """What is kept and why, what the next eviction would take, and the seconds to bring that back.

    `problems` say which budgets cannot be kept, and why.
    """

    workflows: list[WorkflowStorageDocument]
    kept: list[RetainedDatasetDocument]
    evicted: bool
    going: list[EvictionCandidateDocument]
    freed: int
    seconds_back: float
    problems: list[str]


Document = dict[str, Any]
"""A one-shot workflow, as `docs/schemas/one-shot-workflow.json` describes it."""
