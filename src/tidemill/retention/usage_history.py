"""What was done over time, in figures: how much was computed, how much was reused, and what that saved."""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from enum import StrEnum

from tidemill.model.run import RunState
from tidemill.model.usage import Past
from tidemill.retention.memo import Verdict


class Resolution(StrEnum):
    """How long a line of the history is. Weeks begin on Mondays; all is in UTC."""

    MINUTE = "minute"
    HOUR = "hour"
    DAY = "day"
    WEEK = "week"
    MONTH = "month"

    def begin(self, at: float) -> float:
        """When the minute, hour, day, week or month began.

        >>> [Resolution(r).begin(40 * 86_400.0 + 7_300) / 3600 for r in ("hour", "day", "week", "month")]
        [962.0, 960.0, 936.0, 744.0]
        """
        if self is Resolution.MINUTE:
            return at // 60 * 60
        if self is Resolution.HOUR:
            return at // 3600 * 3600
        second = dt.datetime.fromtimestamp(at // 1, dt.UTC)  # a microsecond before midnight is not the next day
        day = second.replace(hour=0, minute=0, second=0)
        if self is Resolution.WEEK:
            day -= dt.timedelta(days=day.weekday())
        return (day.replace(day=1) if self is Resolution.MONTH else day).timestamp()

    def following(self, begin: float) -> float:
        """When the next one begins.

        >>> Resolution.MONTH.following(0.0) / 86_400
        31.0
        """
        return self.begin(begin + _LENGTHS[self])


_LENGTHS = {
    Resolution.MINUTE: 60.0,
    Resolution.HOUR: 3600.0,
    Resolution.DAY: 86_400.0,
    Resolution.WEEK: 7 * 86_400.0,
    Resolution.MONTH: 31 * 86_400.0,
}


class Split(StrEnum):
    """By what each of them is told apart."""

    USER = "user"
    WORKFLOW = "workflow"
    TASK = "task"

    def of(self, one: Past | Tally) -> str:
        if self is Split.USER:
            return one.user or ""
        return one.workflow if self is Split.WORKFLOW else f"{one.workflow}/{one.task}"


@dataclass(frozen=True, slots=True)
class Figures:
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

    def __add__(self, other: Figures) -> Figures:
        """Both together, with the beginning and the name of the first."""
        return replace(self, **{name: getattr(self, name) + getattr(other, name) for name in COUNTED})


COUNTED = tuple(field.name for field in fields(Figures))[2:]


@dataclass(frozen=True, slots=True)
class Tally:
    """What is still known of an hour that was forgotten: of one user, workflow and task. No task: of submissions."""

    user: str | None
    workflow: str
    task: str | None
    figures: Figures


_Key = tuple[float, str | None]
_HITS = (Verdict.REUSED, Verdict.AWAITED, Verdict.UNNEEDED)
_LOST = (RunState.FAILED, RunState.KILLED)


def figures(past: Iterable[Past], tallies: Iterable[Tally], by: Resolution, per: Split | None = None) -> list[Figures]:
    """One entry for each period in which something was done, the oldest first; and for each of those apart."""
    parts: dict[_Key, list[Past]] = defaultdict(list)
    for one in past:
        parts[by.begin(one.at), None if per is None else per.of(one)].append(one)
    found = {key: _figures(*key, some) for key, some in parts.items()}
    for tally in tallies:
        if per is not Split.TASK or tally.task is not None:
            key = by.begin(tally.figures.begin), None if per is None else per.of(tally)
            found[key] = found.get(key, Figures(*key)) + tally.figures
    return [found[key] for key in sorted(found, key=lambda key: (key[0], key[1] or ""))]


def tallied(past: Sequence[Past]) -> list[Tally]:
    """What to remember of the past when the rest is forgotten: figures by the hour."""
    return [*_tallied(past, lambda p: p.task), *_tallied([p for p in past if p.submission is not None], lambda _: None)]


def _tallied(past: Iterable[Past], task: Callable[[Past], str | None]) -> Iterator[Tally]:
    """By task without submissions, since one has several; or submissions alone."""
    parts: dict[tuple[float, str | None, str, str | None], list[Past]] = defaultdict(list)
    for one in past:
        parts[Resolution.HOUR.begin(one.at), one.user, one.workflow, task(one)].append(one)
    for (begin, user, workflow, named), some in parts.items():
        found = _figures(begin, None, some)
        kept = Figures(begin, submissions=found.submissions) if named is None else replace(found, submissions=0)
        yield Tally(user, workflow, named, kept)


def _figures(begin: float, of: str | None, past: list[Past]) -> Figures:
    """A run that several actions share is counted with the submission that asked for it, and once."""
    asked, refreshed = [p for p in past if p.submission is not None], [p for p in past if p.submission is None]
    own = list({p.run: p for p in asked if p.run is not None and p.verdict not in _HITS}.values())
    done = [p for p in (*own, *refreshed) if p.state is RunState.FINISHED]
    return Figures(
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


def without_gaps(found: Iterable[Figures], by: Resolution, most: int) -> list[Figures]:
    """The newest periods, at most so many, those included in which nothing was done."""
    known = {f.begin: f for f in found}
    return [known.get(begin, Figures(begin)) for begin in _periods(known, by)][-most:]


def _periods(known: Iterable[float], by: Resolution) -> Iterator[float]:
    at, last = min(known, default=1.0), max(known, default=0.0)
    while at <= last:
        yield at
        at = by.following(at)
