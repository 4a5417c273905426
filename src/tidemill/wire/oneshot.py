"""Documents about one-shot workflows: submissions, their history, and the datasets that are kept."""

from __future__ import annotations

from typing import Any, Literal

from tidemill.wire.shapes import Moment, Run, Shape


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
    """What was submitted within an hour or a day; `seconds` of computing, and how many of them reuse saved."""

    begin: Moment
    submissions: int
    actions: int
    computed: int
    failed: int
    hits: int
    hit_rate: float
    seconds: float
    saved: float
    bytes: int


class History(Shape):
    by: Literal["hour", "day"]
    figures: list[Figures]


class Dataset(Shape):
    identity: str
    workflow: str
    name: str
    state: str
    claims: int
    bytes: int
    seconds: float
    made: Moment | None
    used: Moment | None


class Kept(Dataset):
    why: str


class Going(Dataset):
    seconds_back: float


class Storage(Shape):
    """What is kept and why, what the next eviction would take, and the seconds to bring that back."""

    held: int
    budget: int | None
    limit: int | None
    kept: list[Kept]
    evicted: bool
    going: list[Going]
    freed: int
    seconds_back: float
    problem: str | None


Document = dict[str, Any]
"""A one-shot workflow, as `docs/schemas/one-shot-workflow.json` describes it."""
