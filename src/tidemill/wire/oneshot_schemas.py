"""Documents about one-shot workflows: submissions, their history, and the datasets that are kept."""

from __future__ import annotations

from typing import Any, Literal

from tidemill.wire.schemas import Moment, Run, Shape


class Action(Shape):
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
    run: Run | None


class Submission(Shape):
    id: int
    workflow: str
    user: str
    at: Moment
    state: str
    actions: list[Action]


class Submissions(Shape):
    submissions: list[Submission]


class Figures(Shape):
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


class History(Shape):
    by: Literal["minute", "hour", "day", "week", "month"]
    per: Literal["user", "workflow", "task"] | None
    figures: list[Figures]


class Dataset(Shape):
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


class Kept(Dataset):
    why: str


class Going(Dataset):
    seconds_back: float


class Held(Shape):
    """`limit`: the bytes from which on something is evicted."""

    held: int
    budget: int | None
    limit: int | None


class Share(Held):
    """What the datasets hold that a workflow was the first to want."""

    workflow: str


class Storage(Held):
    """What is kept and why, what the next eviction would take, and the seconds to bring that back.

    `problems` say which budgets cannot be kept, and why.
    """

    workflows: list[Share]
    kept: list[Kept]
    evicted: bool
    going: list[Going]
    freed: int
    seconds_back: float
    problems: list[str]


Document = dict[str, Any]
"""A one-shot workflow, as `docs/schemas/one-shot-workflow.json` describes it."""
