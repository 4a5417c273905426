"""Jobs: what is known of a table's updates beforehand, and what waits to be loaded into it now.

All times share one unit, whichever it is. *Data time* is what data speak of: a batch brings a table up to a moment of
data time, and the table is as fresh as the latest moment it was brought up to, however long ago that happened.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import takewhile


class JobState(StrEnum):
    """The state of a job, as STAFiLOS has it."""

    ACTIVE = "active"  # data wait, and the policy lets it run as soon as there is a track
    WAITING = "waiting"  # data wait, and the policy lets it wait for another round
    INACTIVE = "inactive"  # no data wait
    RUNNING = "running"


def integrate_staleness(since: float, until: float, fresh: float) -> float:
    """The integral of staleness over a stretch of time in which freshness stood still."""
    return (until - since) * ((since + until) / 2 - fresh)


@dataclass(frozen=True, slots=True)
class UpdateCost:
    """How long an update takes: so much to start, and so much for each unit of data time that it loads."""

    start: float
    rate: float

    def __call__(self, span: float) -> float:
        return self.start + self.rate * span


@dataclass(frozen=True, slots=True)
class JobProfile:
    """What is known of a job beforehand. Whoever learns better gives the job another."""

    name: str
    period: float  # between two batches; of a derived table, the largest among its ancestors
    cost: UpdateCost
    priority: float = 1.0  # larger is more important
    parents: tuple[str, ...] = ()
    selectivity: float = 1.0  # rows made for a row read
    backfill: bool = False  # loads history, on a track of its own
    usual: float = field(init=False, compare=False)  # how long an update takes that is never late
    load: float = field(init=False, compare=False)  # the share of a track that the job needs if it is never late

    def __post_init__(self) -> None:
        """Worked out once: whoever places jobs asks all of them."""
        object.__setattr__(self, "usual", self.cost(self.period))
        object.__setattr__(self, "load", self.usual / self.period)


Batch = tuple[float, float]
"""When data arrived, and the data time that they bring the table up to. The latter never goes back.

A plain tuple, because simulations make millions of them.
"""


@dataclass(slots=True, eq=False)
class Job:
    """The updating of one table: it may be due, and never runs twice at once.

    Batches are loaded in the order in which they came. Several that wait are one update; a run loads the first few of
    them, as many as its grain says.
    """

    profile: JobProfile
    weight: float  # what policies go by: the priority, or what was inherited from dependents
    fresh: float = 0.0  # data time that the table has been brought up to
    since: float = 0.0  # when it was brought there
    staleness: float = 0.0  # its integral until then, not weighted
    expected: float = float("inf")  # when the next batch should come
    batches: deque[Batch] = field(default_factory=deque)
    name: str = field(init=False)
    lane: int = 0  # as whoever places it numbers them
    placed: JobProfile = field(init=False)  # what was known when it was placed there

    def __post_init__(self) -> None:
        self.name = self.profile.name  # asked for at every turn, and never another
        self.placed = self.profile

    @property
    def release_time(self) -> float:
        """When the oldest batch came that has not been loaded."""
        return self.batches[0][0]

    @property
    def staleness_gain(self) -> float:
        """By how much fresher the table is once all that waits is loaded."""
        return self.batches[-1][1] - self.fresh

    @property
    def estimated_cost(self) -> float:
        """How long it will take to load all that waits."""
        return self.profile.cost(self.batches[-1][1] - self.fresh)

    def add_batch(self, batch: Batch) -> None:
        self.batches.append(batch)
        self.expected = batch[0] + self.profile.period

    def compute_span(self, grain: int) -> float:
        """The data time in the first batches."""
        return self.batches[grain - 1][1] - self.fresh

    def load_batches(self, grain: int, now: float) -> None:
        """The first batches have become visible."""
        batches = self.batches
        upto = batches[grain - 1][1]
        if grain == len(batches):  # as it is nearly always
            batches.clear()
        else:
            for _ in range(grain):
                batches.popleft()
        self.staleness += integrate_staleness(self.since, now, self.fresh)
        self.since, self.fresh = now, upto

    def compute_staleness(self, now: float) -> float:
        """The integral of staleness until now."""
        return self.staleness + integrate_staleness(self.since, now, self.fresh)

    def compute_weighted_staleness(self, now: float) -> float:
        """The same times the table's own priority: what all policies are judged by."""
        return self.profile.priority * self.compute_staleness(now)

    def count_catch_up_batches(self, periods: float) -> int:
        """How many of the first batches hold so many periods of data at most; one in any case."""
        limit = self.fresh + periods * self.profile.period
        if self.batches[-1][1] <= limit:
            return len(self.batches)
        return max(1, sum(1 for _ in takewhile(lambda batch: batch[1] <= limit, self.batches)))


def index_by_name(jobs: Iterable[Job]) -> dict[str, Job]:
    return {job.name: job for job in jobs}
