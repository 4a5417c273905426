"""What was submitted over time, in figures: how much was computed, how much was reused, and what that saved."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby

from tidemill.model.run import RunState
from tidemill.model.submission import Past
from tidemill.retain.memo import Verdict


class Resolution(StrEnum):
    HOUR = "hour"
    DAY = "day"

    def begin(self, at: float) -> float:
        """When the hour or day began, in UTC.

        >>> Resolution.HOUR.begin(7300.0), Resolution.DAY.begin(90_000.0)
        (7200.0, 86400.0)
        """
        moment = dt.datetime.fromtimestamp(at, dt.UTC).replace(minute=0, second=0, microsecond=0)
        return (moment.replace(hour=0) if self is Resolution.DAY else moment).timestamp()


@dataclass(frozen=True, slots=True)
class Figures:
    """What was submitted within an hour or a day."""

    begin: float
    submissions: int
    actions: int
    computed: int  # that a run of theirs made
    failed: int
    hits: int  # that were there, were being made, or were not even needed
    seconds: float  # of computing
    saved: float  # seconds that need not be computed
    bytes: int  # made

    @property
    def hit_rate(self) -> float:
        return self.hits / self.actions if self.actions else 0.0


_HITS = (Verdict.REUSED, Verdict.AWAITED, Verdict.UNNEEDED)


def figures(past: Iterable[Past], by: Resolution) -> list[Figures]:
    """One entry for each hour or day in which something was submitted, the oldest first."""
    in_order = sorted(past, key=lambda p: p.at)
    return [_figures(begin, list(some)) for begin, some in groupby(in_order, key=lambda p: by.begin(p.at))]


def _figures(begin: float, past: list[Past]) -> Figures:
    """A run that several actions share is counted with the submission that asked for it, and once."""
    own = {p.run: p for p in past if p.run is not None and p.verdict not in _HITS}
    finished = [p for p in own.values() if p.state is RunState.FINISHED]
    return Figures(
        begin=begin,
        submissions=len({p.submission for p in past}),
        actions=len(past),
        computed=len(finished),
        failed=sum(p.state in (RunState.FAILED, RunState.KILLED) for p in own.values()),
        hits=sum(p.verdict in _HITS for p in past),
        seconds=sum(p.seconds for p in finished),
        saved=sum(p.saved for p in past),
        bytes=sum(p.bytes for p in finished),
    )
