"""Jobs: the profile of a table's updates, and the batches that are pending for it.

All times share one unit. *Data time* is the time that the data describes: a batch brings a table up to a data time, and
the table's freshness is the latest data time that it was brought up to, regardless of when that happened.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import takewhile


def integrate_staleness(since: float, until: float, fresh: float) -> float:
    """Return the integral of staleness over a period of constant freshness."""
    return (until - since) * ((since + until) / 2 - fresh)


@dataclass(frozen=True, slots=True)
class UpdateCost:
    """The duration of an update: a constant to start, and a rate for each unit of data time that it loads."""

    start: float
    rate: float

    def __call__(self, span: float) -> float:
        return self.start + self.rate * span


@dataclass(frozen=True, slots=True)
class JobProfile:
    """The known properties of a job. When better estimates are known, the job gets another profile."""

    name: str
    period: float  # between two batches; of a derived table, the largest among its ancestors
    cost: UpdateCost
    priority: float = 1.0  # larger is more important
    parents: tuple[str, ...] = ()
    selectivity: float = 1.0  # rows written per row read
    backfill: bool = False  # loads history, on a backfill track
    workflow: str = ""  # its jobs share a quota of tracks
    usual_cost: float = field(init=False, compare=False)  # duration of an update that is never late
    load: float = field(init=False, compare=False)  # share of a track that the job needs if it is never late

    def __post_init__(self) -> None:
        """Compute `usual` and `load` once: placement reads them for all jobs."""
        object.__setattr__(self, "usual_cost", self.cost(self.period))
        object.__setattr__(self, "load", self.usual_cost / self.period)


Batch = tuple[float, float]
"""Arrival time of data, and the data time that they bring the table up to. The latter never decreases.

A plain tuple, because simulations create millions of them.
"""


@dataclass(slots=True, eq=False)
class Job:
    """The updates of one table; it never runs twice at once, and a run loads the first few of its batches, in order."""

    profile: JobProfile
    weight: float  # used by policies: the priority, or the one inherited from dependents
    fresh: float = 0.0  # data time that the table has been brought up to
    since: float = 0.0  # when it was brought there
    staleness: float = 0.0  # its integral until then, not weighted
    expected: float = float("inf")  # when the next batch should arrive
    batches: deque[Batch] = field(default_factory=deque)
    name: str = field(init=False)
    lane: int = 0  # number of its lane in the track table
    placed: JobProfile = field(init=False)  # its profile when it was placed there

    def __post_init__(self) -> None:
        self.name = self.profile.name  # a copy, because it is read very often; it never changes
        self.placed = self.profile

    @property
    def release_time(self) -> float:
        """When the oldest pending batch arrived."""
        return self.batches[0][0]

    @property
    def staleness_gain(self) -> float:
        """The data time by which the table becomes fresher once all pending batches are loaded."""
        return self.batches[-1][1] - self.fresh

    @property
    def estimated_cost(self) -> float:
        """The time that loading all pending batches takes."""
        return self.profile.cost(self.batches[-1][1] - self.fresh)

    def add_batch(self, batch: Batch) -> None:
        self.batches.append(batch)
        self.expected = batch[0] + self.profile.period

    def compute_span(self, batches: int) -> float:
        """Return the data time in the first `count` batches."""
        return self.batches[batches - 1][1] - self.fresh

    def load_batches(self, count: int, now: float) -> None:
        """Record that the first `count` batches became visible."""
        batches = self.batches
        upto = batches[count - 1][1]
        if count == len(batches):  # the usual case
            batches.clear()
        else:
            for _ in range(count):
                batches.popleft()
        self.staleness += integrate_staleness(self.since, now, self.fresh)
        self.since, self.fresh = now, upto

    def compute_staleness(self, now: float) -> float:
        return self.staleness + integrate_staleness(self.since, now, self.fresh)

    def compute_weighted_staleness(self, now: float) -> float:
        """Return the integral weighted by the table's own priority, the measure by which policies are compared."""
        return self.profile.priority * self.compute_staleness(now)

    def count_catch_up_batches(self, periods: float) -> int:
        """Return how many of the first batches hold at most this many periods of data; at least one."""
        limit = self.fresh + periods * self.profile.period
        if self.batches[-1][1] <= limit:
            return len(self.batches)
        return max(1, sum(1 for _ in takewhile(lambda batch: batch[1] <= limit, self.batches)))


def index_by_name(jobs: Iterable[Job]) -> dict[str, Job]:
    return {job.name: job for job in jobs}
