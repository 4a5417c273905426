"""Triggers: explicit reasons to run a bound flow.

A trigger is a tree whose leaves are conditions. A leaf is *due* from some moment on, or not yet; when a server handles
it, it has *fired* and waits for the next time. A leaf that stands alone makes its flow run. In a compound the flow runs
once all parts have fired, and then all of them are armed again. However often a leaf became due before it was handled,
it fires once: the times beyond the first are counted as missed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

Path = tuple[int, ...]
"""Where a leaf stands: the number of its trigger among those of the flow, then of each part within."""


class Reached(StrEnum):
    """What a run of another flow may have come to."""

    LAUNCHED = "launched"
    COMPLETED = "completed"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Data:
    """New data on a channel; with a minimum, once so many rows or bytes came, or the first of them waited so long."""

    channel: str
    rows: int | None = None
    bytes: int | None = None
    age: float | None = None  # seconds

    def __str__(self) -> str:
        least = [f"{self.rows} rows"] if self.rows else []
        least += [f"{self.bytes} bytes"] if self.bytes else []
        least += [f"{self.age:g} s"] if self.age is not None else []
        return f"data on {self.channel}" + (f" ({' or '.join(least)})" if least else "")


@dataclass(frozen=True, slots=True)
class Every:
    """The passing of time, counted from when the trigger was registered."""

    seconds: float

    def __str__(self) -> str:
        return f"every {self.seconds:g} s"

    def next(self, due: float, now: float) -> tuple[float, int]:
        """The first moment after `now` in the rhythm of `due`, and how many there were between.

        >>> Every(10).next(due=100.0, now=134.0)
        (140.0, 3)
        """
        missed = max(0, int((now - due) // self.seconds))
        return due + (missed + 1) * self.seconds, missed


@dataclass(frozen=True, slots=True)
class Cron:
    """Moments of the calendar of a time zone, as cron writes them."""

    expression: str
    zone: str = "UTC"

    MOST = 10_000
    """Missed moments that are counted one by one; after so many the rest is not."""

    def __str__(self) -> str:
        return f"cron {self.expression!r} ({self.zone})"

    def next(self, due: float, now: float) -> tuple[float, int]:
        """The first moment after `now`, and how many there were from `due` on that nobody handled.

        >>> Cron("0 0 * * *").next(due=0.0, now=200_000.0)
        (259200.0, 2)
        """
        missed = 0
        moments = self.after(due)
        while (moment := next(moments)) <= now:
            missed += 1
            if missed >= self.MOST:
                return next(self.after(now)), missed
        return moment, missed

    def after(self, moment: float) -> Iterator[float]:
        here = datetime.fromtimestamp(moment, UTC).astimezone(ZoneInfo(self.zone))
        return (found.timestamp() for found in CronSim(self.expression, here))


@dataclass(frozen=True, slots=True)
class After:
    """A run of another bound flow was launched, completed or failed."""

    flow: str
    reached: Reached = Reached.COMPLETED

    def __str__(self) -> str:
        return f"{self.flow} {self.reached}"


@dataclass(frozen=True, slots=True)
class Lag:
    """Data came on an input that what the flow writes must reflect so soon: how a promise makes its flow run."""

    channel: str
    seconds: float

    def __str__(self) -> str:
        return f"data on {self.channel} must be reflected within {self.seconds:g} s"


@dataclass(frozen=True, slots=True)
class AllOf:
    """Several triggers, all of which must have fired."""

    parts: tuple[Trigger, ...]

    def __str__(self) -> str:
        return "all of (" + "; ".join(map(str, self.parts)) + ")"


Leaf = Data | Every | Cron | After | Lag
Trigger = Leaf | AllOf


def leaves(trigger: Trigger, path: Path = ()) -> Iterator[tuple[Path, Leaf]]:
    """The leaves of a trigger, each with where it stands in it."""
    if isinstance(trigger, AllOf):
        for number, part in enumerate(trigger.parts):
            yield from leaves(part, (*path, number))
    else:
        yield path, trigger


def satisfied(trigger: Trigger, fired: Set[Path]) -> bool:
    """Has the whole trigger fired, given which of its leaves have?

    >>> both = AllOf((Data("a"), AllOf((Data("b"), Data("c")))))
    >>> satisfied(both, {(0,), (1, 0)}), satisfied(both, {(0,), (1, 0), (1, 1)})
    (False, True)
    """
    return all(path in fired for path, _ in leaves(trigger))


def first_due(leaf: Leaf, now: float) -> float | None:
    """When a leaf that is registered at `now` is due for the first time; None if that depends on what happens."""
    match leaf:
        case Every():
            return now + leaf.seconds
        case Cron():
            return next(leaf.after(now))
        case Data() | After() | Lag():
            return None


def problems(trigger: Trigger) -> Iterator[str]:
    """What is wrong with a trigger in itself."""
    if isinstance(trigger, AllOf) and not trigger.parts:
        yield "a compound trigger needs at least one part"
    for _, leaf in leaves(trigger):
        match leaf:
            case Every(seconds) if not seconds > 0:
                yield f"an interval must be longer than nothing, not {seconds:g} s"
            case Cron():
                yield from _cron_problems(leaf)
            case Data(_, rows, size, age):
                for what, least in (("rows", rows), ("bytes", size), ("age", age)):
                    if least is not None and least <= 0:
                        yield f"{what} of a data trigger must be more than 0, not {least:g}"


def _cron_problems(leaf: Cron) -> Iterator[str]:
    try:
        next(leaf.after(0.0))
    except (CronSimError, ValueError, StopIteration, OSError, LookupError) as error:
        shown = str(error) or "it never comes"
        yield f"{leaf.expression!r} in time zone {leaf.zone!r} is no moment that cron knows: {shown}"


def to_json(trigger: Trigger) -> dict[str, Any]:
    match trigger:
        case Data():
            limits = {"rows": trigger.rows, "bytes": trigger.bytes, "age": trigger.age}
            return {"kind": "data", "channel": trigger.channel} | {k: v for k, v in limits.items() if v is not None}
        case Every():
            return {"kind": "every", "seconds": trigger.seconds}
        case Cron():
            return {"kind": "cron", "expression": trigger.expression, "zone": trigger.zone}
        case After():
            return {"kind": "after", "flow": trigger.flow, "reached": str(trigger.reached)}
        case Lag():
            return {"kind": "lag", "channel": trigger.channel, "seconds": trigger.seconds}
        case AllOf():
            return {"kind": "all", "parts": [to_json(p) for p in trigger.parts]}


def from_json(data: Mapping[str, Any]) -> Trigger:
    """
    >>> from_json(to_json(AllOf((Every(5.0), Data("a", rows=3)))))
    AllOf(parts=(Every(seconds=5.0), Data(channel='a', rows=3, bytes=None, age=None)))
    """
    match data["kind"]:
        case "data":
            return Data(data["channel"], data.get("rows"), data.get("bytes"), data.get("age"))
        case "every":
            return Every(data["seconds"])
        case "cron":
            return Cron(data["expression"], data["zone"])
        case "after":
            return After(data["flow"], Reached(data["reached"]))
        case "lag":
            return Lag(data["channel"], data["seconds"])
        case "all":
            return AllOf(tuple(map(from_json, data["parts"])))
        case other:
            raise ValueError(f"unknown kind of trigger {other!r}")
