"""Triggers: explicit conditions for running a bound flow.

A trigger is a tree whose leaves are conditions. A leaf is *due* from some time on; when a server handles it, it has
*fired* and waits for the next time. A single leaf makes its flow run. A flow with a compound trigger runs once all
parts have fired, and then all parts are armed again. A leaf that became due several times before it was handled fires
once: the times beyond the first are counted as missed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from enum import StrEnum
from math import inf
from typing import Any
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

Path = tuple[int, ...]
"""The position of a leaf: the index of its trigger among those of the flow, then of each nested part."""


class RunMilestone(StrEnum):
    """The state of another flow's run that a trigger waits for."""

    LAUNCHED = "launched"
    COMPLETED = "completed"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class DataTrigger:
    """New data on a channel; with minimums, once that many rows or bytes arrived, or the oldest has that age."""

    channel: str
    rows: int | None = None
    bytes: int | None = None
    age: float | None = None  # seconds

    def __str__(self) -> str:
        minimums = [f"{self.rows} rows"] if self.rows else []
        minimums += [f"{self.bytes} bytes"] if self.bytes else []
        minimums += [f"{self.age:g} s"] if self.age is not None else []
        return f"data on {self.channel}" + (f" ({' or '.join(minimums)})" if minimums else "")


@dataclass(frozen=True, slots=True)
class IntervalTrigger:
    """A fixed interval, counted from the registration of the trigger."""

    seconds: float

    def __str__(self) -> str:
        return f"every {self.seconds:g} s"

    def find_next(self, due: float, now: float) -> tuple[float, int]:
        """The first time after `now` in the schedule that starts at `due`, and the number of times missed.

        >>> IntervalTrigger(10).find_next(due=100.0, now=134.0)
        (140.0, 3)
        """
        missed = max(0, int((now - due) // self.seconds))
        return due + (missed + 1) * self.seconds, missed


@dataclass(frozen=True, slots=True)
class CronTrigger:
    """A cron schedule in a time zone."""

    expression: str
    zone: str = "UTC"

    MAX_COUNTED_MISSES = 10_000
    """The greatest number of missed times that is counted."""

    def __str__(self) -> str:
        return f"cron {self.expression!r} ({self.zone})"

    def find_next(self, due: float, now: float) -> tuple[float, int]:
        """The first scheduled time after `now`, and the number of times since `due` that were missed.

        >>> CronTrigger("0 0 * * *").find_next(due=0.0, now=200_000.0)
        (259200.0, 2)
        """
        missed = 0
        times = self.iterate_moments(due)
        while (time := next(times)) <= now:
            missed += 1
            if missed >= self.MAX_COUNTED_MISSES:
                return next(self.iterate_moments(now)), missed
        return time, missed

    def iterate_moments(self, timestamp: float) -> Iterator[float]:
        start = datetime.fromtimestamp(timestamp, UTC).astimezone(ZoneInfo(self.zone))
        return (time.timestamp() for time in CronSim(self.expression, start))


@dataclass(frozen=True, slots=True)
class RunTrigger:
    """A run of another bound flow was launched, completed or failed."""

    flow: str
    reached: RunMilestone = RunMilestone.COMPLETED

    def __str__(self) -> str:
        return f"{self.flow} {self.reached}"


@dataclass(frozen=True, slots=True)
class LagTrigger:
    """Data on an input that the flow's outputs must reflect within a lag: the trigger of a freshness target."""

    channel: str
    seconds: float

    def __str__(self) -> str:
        return f"data on {self.channel} must be reflected within {self.seconds:g} s"


@dataclass(frozen=True, slots=True)
class AllOfTrigger:
    """Several triggers, all of which must have fired."""

    parts: tuple[Trigger, ...]

    def __str__(self) -> str:
        return "all of (" + "; ".join(map(str, self.parts)) + ")"


Leaf = DataTrigger | IntervalTrigger | CronTrigger | RunTrigger | LagTrigger
Trigger = Leaf | AllOfTrigger


def list_leaves(trigger: Trigger, path: Path = ()) -> Iterator[tuple[Path, Leaf]]:
    """The leaves of a trigger, each with its path."""
    if isinstance(trigger, AllOfTrigger):
        for number, part in enumerate(trigger.parts):
            yield from list_leaves(part, (*path, number))
    else:
        yield path, trigger


def is_satisfied(trigger: Trigger, fired: Set[Path]) -> bool:
    """Whether all leaves of the trigger are in `fired`.

    >>> both = AllOfTrigger((DataTrigger("a"), AllOfTrigger((DataTrigger("b"), DataTrigger("c")))))
    >>> is_satisfied(both, {(0,), (1, 0)}), is_satisfied(both, {(0,), (1, 0), (1, 1)})
    (False, True)
    """
    return all(path in fired for path, _ in list_leaves(trigger))


def find_first_due(leaf: Leaf, now: float) -> float | None:
    """The time at which a leaf registered at `now` is first due; None if that depends on events."""
    match leaf:
        case IntervalTrigger():
            return now + leaf.seconds
        case CronTrigger():
            return next(leaf.iterate_moments(now))
        case _:
            return None


def find_next_due(leaf: Leaf, due: float, now: float) -> tuple[float | None, int]:
    """The time at which a leaf that was due is due next, None if that depends on events; and the times missed."""
    return leaf.find_next(due, now) if isinstance(leaf, IntervalTrigger | CronTrigger) else (None, 0)


def find_problems(trigger: Trigger) -> Iterator[str]:
    """Problems of a trigger that do not depend on the workflow."""
    if isinstance(trigger, AllOfTrigger) and not trigger.parts:
        yield "a compound trigger needs at least one part"
    for _, leaf in list_leaves(trigger):
        match leaf:
            case IntervalTrigger(seconds) if not 0 < seconds < inf:
                yield f"an interval must be longer than 0 s and finite, not {seconds:g} s"
            case CronTrigger():
                yield from _find_cron_problems(leaf)
            case DataTrigger(channel, rows, size, age):
                yield from _find_type_problem("the name of a channel", channel)
                for quantity, minimum in (("rows", rows), ("bytes", size), ("age", age)):
                    if quantity != "age" and minimum is not None and type(minimum) is not int:
                        yield f"expected {quantity} to be a whole number, found {minimum!r}"
                    elif minimum is not None and minimum <= 0:
                        yield f"{quantity} of a data trigger must be more than 0, not {minimum:g}"
            case RunTrigger(flow):
                yield from _find_type_problem("the name of a flow", flow)
            case _ if not isinstance(leaf, Leaf):
                yield f"expected a trigger such as tm.every('1 day'), found {leaf!r}"


def _find_type_problem(expected: str, found: object) -> Iterator[str]:
    if not isinstance(found, str):
        yield f"expected {expected}, found {found!r}"


def _find_cron_problems(leaf: CronTrigger) -> Iterator[str]:
    problems = [
        *_find_type_problem("a cron expression such as '0 3 * * *'", leaf.expression),
        *_find_type_problem("a time zone such as 'Europe/Berlin'", leaf.zone),
    ]
    if problems:
        yield from problems
        return
    try:
        next(leaf.iterate_moments(0.0))
    except (CronSimError, ValueError, StopIteration, OSError, LookupError) as error:
        reason = str(error) or "it never matches"
        yield f"{leaf.expression!r} in time zone {leaf.zone!r} is not a valid cron schedule: {reason}"


_KINDS: Mapping[str, type[Leaf]] = {
    "data": DataTrigger,
    "every": IntervalTrigger,
    "cron": CronTrigger,
    "after": RunTrigger,
    "lag": LagTrigger,
}
"""Kinds of leaves in JSON; their other keys are the fields."""


def to_json(trigger: Trigger) -> dict[str, Any]:
    if isinstance(trigger, AllOfTrigger):
        return {"kind": "all", "parts": [to_json(p) for p in trigger.parts]}
    kind = next(kind for kind, leaf in _KINDS.items() if isinstance(trigger, leaf))
    return {"kind": kind} | {key: value for key, value in asdict(trigger).items() if value is not None}


def from_json(data: Mapping[str, Any]) -> Trigger:
    """The inverse of `to_json`.

    >>> from_json(to_json(AllOfTrigger((IntervalTrigger(5.0), DataTrigger("a", rows=3)))))
    AllOfTrigger(parts=(IntervalTrigger(seconds=5.0), DataTrigger(channel='a', rows=3, bytes=None, age=None)))
    """
    fields = {key: value for key, value in data.items() if key != "kind"}
    if data["kind"] == "all":
        return AllOfTrigger(tuple(map(from_json, fields["parts"])))
    if data["kind"] == "after":
        fields["reached"] = RunMilestone(fields["reached"])
    return _KINDS[data["kind"]](**fields)
