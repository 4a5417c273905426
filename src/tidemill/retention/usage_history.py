"""What was done over time, in figures: how much was computed, how much was reused, and what that saved."""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from enum import StrEnum

from tidemill.model.run import RunState
from tidemill.model.usage import UsageRecord
from tidemill.retention.memo import ReuseVerdict


class TimeResolution(StrEnum):
    """How long a line of the history is. Weeks begin on Mondays; all is in UTC."""

    MINUTE = "minute"
    HOUR = "hour"
    DAY = "day"
    WEEK = "week"
    MONTH = "month"

    def find_begin(self, at: float) -> float:
        """When the minute, hour, day, week or month began.

        >>> [TimeResolution(r).find_begin(40 * 86_400.0 + 7_300) / 3600 for r in ("hour", "day", "week", "month")]
        [962.0, 960.0, 936.0, 744.0]
        """
        if self is TimeResolution.MINUTE:
            return at // 60 * 60
        if self is TimeResolution.HOUR:
            return at // 3600 * 3600
        second = dt.datetime.fromtimestamp(at // 1, dt.UTC)  # a microsecond before midnight is not the next day
        day = second.replace(hour=0, minute=0, second=0)
        if self is TimeResolution.WEEK:
            day -= dt.timedelta(days=day.weekday())
        return (day.replace(day=1) if self is TimeResolution.MONTH else day).timestamp()

    def find_next(self, begin: float) -> float:
        """When the next one begins.

        >>> TimeResolution.MONTH.find_next(0.0) / 86_400
        31.0
        """
        return self.find_begin(begin + _LENGTHS[self])


_LENGTHS = {
    TimeResolution.MINUTE: 60.0,
    TimeResolution.HOUR: 3600.0,
    TimeResolution.DAY: 86_400.0,
    TimeResolution.WEEK: 7 * 86_400.0,
    TimeResolution.MONTH: 31 * 86_400.0,
}


class UsageSplit(StrEnum):
    """By what each of them is told apart."""

    USER = "user"
    WORKFLOW = "workflow"
    TASK = "task"

    def extract_key(self, one: UsageRecord | UsageTally) -> str:
        if self is UsageSplit.USER:
            return one.user or ""
        return one.workflow if self is UsageSplit.WORKFLOW else f"{one.workflow}/{one.task}"


@dataclass(frozen=True, slots=True)
class UsageFigures:
    """What was done within a minute, hour, day, week or month, by all or by one user, workflow or task."""

    begin: float
    of: str | None = None  # None: all
    submissions: int = 0
    actions: int = 0
    computed: int = 0  # actions that a run of theirs made
    hits: int = 0  # actions whose result was there, was being made, or was not even needed
    refreshes: int = 0  # of single tables: a run of two tasks counts twice
    failed: int = 0  # of either
    seconds: float = 0.0  # of computing
    saved: float = 0.0  # seconds that need not be computed
    bytes: int = 0  # made

    @property
    def hit_rate(self) -> float:
        return self.hits / self.actions if self.actions else 0.0

    def __add__(self, other: UsageFigures) -> UsageFigures:
        """Both together, with the beginning and the name of the first."""
        return replace(self, **{name: getattr(self, name) + getattr(other, name) for name in COUNTED})


COUNTED = tuple(field.name for field in fields(UsageFigures))[2:]


@dataclass(frozen=True, slots=True)
class UsageTally:
    """What is still known of an hour that was forgotten: of one user, workflow and task. No task: of submissions."""

    user: str | None
    workflow: str
    task: str | None
    figures: UsageFigures


_Key = tuple[float, str | None]
_HITS = (ReuseVerdict.REUSED, ReuseVerdict.AWAITED, ReuseVerdict.UNNEEDED)
_LOST = (RunState.FAILED, RunState.KILLED)


def compute_figures(
    past: Iterable[UsageRecord], tallies: Iterable[UsageTally], by: TimeResolution, per: UsageSplit | None = None
) -> list[UsageFigures]:
    """One entry for each period in which something was done, the oldest first; and for each of those apart."""
    parts: dict[_Key, list[UsageRecord]] = defaultdict(list)
    for one in past:
        parts[by.find_begin(one.at), None if per is None else per.extract_key(one)].append(one)
    found = {key: _sum_usage(*key, some) for key, some in parts.items()}
    for tally in tallies:
        if per is not UsageSplit.TASK or tally.task is not None:
            key = by.find_begin(tally.figures.begin), None if per is None else per.extract_key(tally)
            found[key] = found.get(key, UsageFigures(*key)) + tally.figures
    return [found[key] for key in sorted(found, key=lambda key: (key[0], key[1] or ""))]


def tally_usage(past: Sequence[UsageRecord]) -> list[UsageTally]:
    """What to remember of the past when the rest is forgotten: figures by the hour."""
    return [
        *_tally_by(past, lambda p: p.task),
        *_tally_by([p for p in past if p.submission is not None], lambda _: None),
    ]


def _tally_by(past: Iterable[UsageRecord], task: Callable[[UsageRecord], str | None]) -> Iterator[UsageTally]:
    """By task without submissions, since one has several; or submissions alone."""
    parts: dict[tuple[float, str | None, str, str | None], list[UsageRecord]] = defaultdict(list)
    for one in past:
        parts[TimeResolution.HOUR.find_begin(one.at), one.user, one.workflow, task(one)].append(one)
    for (begin, user, workflow, named), some in parts.items():
        found = _sum_usage(begin, None, some)
        kept = UsageFigures(begin, submissions=found.submissions) if named is None else replace(found, submissions=0)
        yield UsageTally(user, workflow, named, kept)


def _sum_usage(begin: float, of: str | None, past: list[UsageRecord]) -> UsageFigures:
    """A run that several actions share is counted with the submission that asked for it, and once."""
    asked, refreshed = [p for p in past if p.submission is not None], [p for p in past if p.submission is None]
    own = list({p.run: p for p in asked if p.run is not None and p.verdict not in _HITS}.values())
    done = [p for p in (*own, *refreshed) if p.state is RunState.FINISHED]
    return UsageFigures(
        begin=begin,
        of=of,
        submissions=len({p.submission for p in asked}),
        actions=len(asked),
        computed=sum(p.state is RunState.FINISHED for p in own),
        hits=sum(p.verdict in _HITS for p in asked),
        refreshes=sum(p.state is RunState.FINISHED for p in refreshed),
        failed=sum(p.state in _LOST for p in (*own, *refreshed)),
        seconds=sum(p.seconds for p in done),
        saved=sum(p.saved for p in asked),
        bytes=sum(p.bytes for p in done),
    )


def fill_gaps(found: Iterable[UsageFigures], by: TimeResolution, most: int) -> list[UsageFigures]:
    """The newest periods, at most so many, those included in which nothing was done."""
    known = {f.begin: f for f in found}
    return [known.get(begin, UsageFigures(begin)) for begin in _list_periods(known, by)][-most:]


def _list_periods(known: Iterable[float], by: TimeResolution) -> Iterator[float]:
    at, last = min(known, default=1.0), max(known, default=0.0)
    while at <= last:
        yield at
        at = by.find_next(at)
