"""Usage figures over time: how much was computed, how much was reused, and how much that saved."""

import datetime as dt
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from enum import StrEnum

from tidemill.model.run import RunState
from tidemill.model.usage import UsageFigures, UsageRecord, UsageTally
from tidemill.retention.memo import ReuseVerdict


class TimeResolution(StrEnum):
    """The period of one entry of the history. Weeks begin on Mondays; all times are in UTC."""

    MINUTE = "minute"
    HOUR = "hour"
    DAY = "day"
    WEEK = "week"
    MONTH = "month"

    def find_begin(self, time: float) -> float:
        """Return the beginning of the minute, hour, day, week or month.

        >>> [TimeResolution(r).find_begin(40 * 86_400.0 + 7_300) / 3600 for r in ("hour", "day", "week", "month")]
        [962.0, 960.0, 936.0, 744.0]
        """
        if self is TimeResolution.MINUTE:
            return time // 60 * 60
        if self is TimeResolution.HOUR:
            return time // 3600 * 3600
        second = dt.datetime.fromtimestamp(time // 1, dt.UTC)  # a microsecond before midnight is still today
        day = second.replace(hour=0, minute=0, second=0)
        if self is TimeResolution.WEEK:
            day -= dt.timedelta(days=day.weekday())
        return (day.replace(day=1) if self is TimeResolution.MONTH else day).timestamp()

    def find_next(self, begin: float) -> float:
        """Return the beginning of the next period.

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
    """The attribute by which usage is split."""

    USER = "user"
    WORKFLOW = "workflow"
    TASK = "task"

    def extract_key(self, record: UsageRecord | UsageTally) -> str:
        if self is UsageSplit.USER:
            return record.user or ""
        return record.workflow if self is UsageSplit.WORKFLOW else f"{record.workflow}/{record.task}"


_Key = tuple[float, str | None]
_HITS = (ReuseVerdict.REUSED, ReuseVerdict.AWAITED, ReuseVerdict.UNNEEDED)
_LOST = (RunState.FAILED, RunState.KILLED)


def compute_figures(
    usage_records: Iterable[UsageRecord],
    tallies: Iterable[UsageTally],
    resolution: TimeResolution,
    split: UsageSplit | None = None,
) -> list[UsageFigures]:
    """Return one entry for each period with usage, the oldest first, and for each value of the split."""
    groups: dict[_Key, list[UsageRecord]] = defaultdict(list)
    for record in usage_records:
        groups[resolution.find_begin(record.at), None if split is None else split.extract_key(record)].append(record)
    figures = {key: _sum_usage(*key, records) for key, records in groups.items()}
    for tally in tallies:
        if split is not UsageSplit.TASK or tally.task is not None:
            key = resolution.find_begin(tally.figures.begin), None if split is None else split.extract_key(tally)
            figures[key] = figures.get(key, UsageFigures(*key)) + tally.figures
    return [figures[key] for key in sorted(figures, key=lambda key: (key[0], key[1] or ""))]


def tally_usage(records: Sequence[UsageRecord]) -> list[UsageTally]:
    """Return the hourly totals to keep when the records expire."""
    return [
        *_tally_by(records, lambda record: record.task),
        *_tally_by([record for record in records if record.submission is not None], lambda _: None),
    ]


def _tally_by(records: Iterable[UsageRecord], task: Callable[[UsageRecord], str | None]) -> Iterator[UsageTally]:
    """Yield totals by task without submissions, because one has several tasks; or of submissions alone."""
    groups: dict[tuple[float, str | None, str, str | None], list[UsageRecord]] = defaultdict(list)
    for record in records:
        groups[TimeResolution.HOUR.find_begin(record.at), record.user, record.workflow, task(record)].append(record)
    for (begin, user, workflow, task_name), members in groups.items():
        figures = _sum_usage(begin, None, members)
        total = UsageFigures(begin, submissions=figures.submissions)
        yield UsageTally(user, workflow, task_name, total if task_name is None else replace(figures, submissions=0))


def _sum_usage(begin: float, group: str | None, records: list[UsageRecord]) -> UsageFigures:
    """Sum records. A run that several actions share counts once, with the submission that requested it."""
    actions, refreshed = [p for p in records if p.submission is not None], [p for p in records if p.submission is None]
    runs = list({p.run: p for p in actions if p.run is not None and p.verdict not in _HITS}.values())
    finished = [p for p in (*runs, *refreshed) if p.state is RunState.FINISHED]
    return UsageFigures(
        begin=begin,
        group=group,
        submissions=len({p.submission for p in actions}),
        actions=len(actions),
        computed=sum(p.state is RunState.FINISHED for p in runs),
        hits=sum(p.verdict in _HITS for p in actions),
        refreshes=sum(p.state is RunState.FINISHED for p in refreshed),
        failed=sum(p.state in _LOST for p in (*runs, *refreshed)),
        seconds=sum(p.seconds for p in finished),
        saved_seconds=sum(p.saved_seconds for p in actions),
        bytes=sum(p.bytes for p in finished),
    )


def fill_gaps(figures: Iterable[UsageFigures], resolution: TimeResolution, limit: int) -> list[UsageFigures]:
    """Return the newest periods, at most `limit`, including those without usage."""
    by_begin = {f.begin: f for f in figures}
    return [by_begin.get(begin, UsageFigures(begin)) for begin in _list_periods(by_begin, resolution)][-limit:]


def _list_periods(begins: Iterable[float], by: TimeResolution) -> Iterator[float]:
    begin, last = min(begins, default=1.0), max(begins, default=0.0)
    while begin <= last:
        yield begin
        begin = by.find_next(begin)
