"""Windows: which stretches of a stream of events a task gets to see together, declared.

A *size* says how far a window reaches and a *step* how far the next one moves on, each in time, tokens (events) or
waves. Or a window is what lies between an event that opens it and one that closes it. `docs/streams.md` says what each
of the nine combinations means.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from tidemill.model.units import parse_duration

MICROSECONDS = 1_000_000


class Unit(StrEnum):
    TIME = "time"
    TOKENS = "tokens"
    WAVES = "waves"


@dataclass(frozen=True, slots=True)
class Extent:
    """A size or a step: microseconds, or so many tokens or waves."""

    unit: Unit
    amount: int

    @classmethod
    def from_text(cls, text: str) -> Extent:
        """Read an extent as people write it.

        >>> Extent.from_text("5 tokens"), Extent.from_text("1 wave").unit.value, Extent.from_text("1.5 s").amount
        (Extent(unit=<Unit.TOKENS: 'tokens'>, amount=5), 'waves', 1500000)
        """
        counted = _COUNTED.fullmatch(text.strip().lower())
        if counted:
            return cls(Unit(counted[2] + "s"), int(counted[1]))
        try:
            return cls(Unit.TIME, round(parse_duration(text) * MICROSECONDS))
        except ValueError as error:
            raise ValueError(f"not an extent: {text!r}; write it like '30s', '5 tokens' or '2 waves'") from error


_COUNTED = re.compile(r"(\d+) (token|wave)s?")
ONE_TOKEN = Extent(Unit.TOKENS, 1)


def _to_set(value: Any) -> Any:
    """What is in a list, whatever the order and however often."""
    return None if value is None else tuple(sorted(set(value), key=repr))


FUNCTIONS: Mapping[str, Callable[[Any], Any]] = {
    "as-set": _to_set,
    "length": lambda value: None if value is None else len(value),
    "lower": lambda value: None if value is None else str(value).lower(),
}
"""What may be applied to a value before events are grouped by it."""


@dataclass(frozen=True, slots=True)
class GroupKey:
    """A value to group by: a column, what a path leads to inside it, or a function of that."""

    path: tuple[str, ...]
    function: str | None = None

    @classmethod
    def from_text(cls, text: str) -> GroupKey:
        """Read a path such as `/entities/hashtags`, `user.name` or `tags/0`, or a function of one.

        >>> GroupKey.from_text("as-set(/entities/hashtags)")
        GroupKey(path=('entities', 'hashtags'), function='as-set')
        """
        called = _CALLED.fullmatch(text.strip())
        function, inner = (called[1], called[2]) if called else (None, text)
        path = tuple(re.split(r"[/.]", inner.strip().removeprefix("/")))
        if function is not None and function not in FUNCTIONS:
            raise ValueError(f"cannot group by {text!r}: its functions are {', '.join(FUNCTIONS)}, not {function!r}")
        if not all(_STEP.fullmatch(step) for step in path):
            raise ValueError(f"cannot group by {text!r}; write a path like 'user', '/entities/hashtags' or 'tags/0'")
        return cls(path, function)

    @property
    def column_name(self) -> str:
        return self.path[0]

    def extract_value(self, value: Any) -> Any:
        """The value for an event whose column is this; None where the path leads nowhere.

        >>> GroupKey.from_text("as-set(e/tags)").extract_value({"tags": ["b", "a", "b"]})
        ('a', 'b')
        """
        for step in self.path[1:]:
            value = _get_member(value, step)
        return _to_hashable(value if self.function is None else FUNCTIONS[self.function](value))


_CALLED = re.compile(r"([a-z-]+)\((.*)\)")
_STEP = re.compile(r"\w+")


def _get_member(value: Any, step: str) -> Any:
    if isinstance(value, Mapping):
        return value.get(step)
    if isinstance(value, Sequence) and not isinstance(value, str) and step.isdecimal():
        return value[int(step)] if int(step) < len(value) else None
    return None


def _to_hashable(value: Any) -> Any:
    if isinstance(value, Mapping):
        return tuple((k, _to_hashable(v)) for k, v in sorted(value.items()))
    return tuple(map(_to_hashable, value)) if isinstance(value, list | tuple) else value


@dataclass(frozen=True, slots=True)
class Between:
    """A window from an event that opens it to one that closes it; conditions are Spark SQL over the event's columns."""

    closes: str
    opens: str | None = None  # None: a window opens right after the one before
    punctuation: bool = False  # the closing event is a mark and no data: it is part of no window


@dataclass(frozen=True, slots=True)
class Window:
    """A window on a task's input. Each group has a queue of its own and windows of its own.

    `timeout`: a window of a step in time is formed at the latest after so many steps from where the one before ended,
    whether or not an event has come that shows that it is over. 1: as soon as its time has passed.
    """

    size: Extent | Between
    step: Extent = ONE_TOKEN
    by: tuple[GroupKey, ...] = ()
    timeout: float | None = None
    delete_used: bool = False  # an event that was part of a window is part of no other
    at_least: int = 1  # events; a window of fewer is not formed, and uses none
    time: str | None = None  # the column with the event's time; None: events are timed when they arrive

    @classmethod
    def from_text(
        cls,
        size: str | Between,
        step: str | None = None,
        *,
        by: Sequence[str] = (),
        timeout: float | None = None,
        delete_used: bool = False,
        at_least: int = 1,
        time: str | None = None,
    ) -> Window:
        """Declare a window in one line: `Window.of("30s", "1s", by=["user"])`; without a step, one for each event.

        >>> Window.from_text("5 tokens", "3 tokens", by=["/user/id"]).find_problems()
        []
        """
        extent = size if isinstance(size, Between) else Extent.from_text(size)
        every = ONE_TOKEN if step is None else Extent.from_text(step)
        keys = tuple(map(GroupKey.from_text, by))
        return cls(extent, every, keys, timeout, delete_used, at_least, time)

    @property
    def unit_pair(self) -> tuple[Unit, Unit] | None:
        """The units of step and size; None: by condition."""
        return None if isinstance(self.size, Between) else (self.step.unit, self.size.unit)

    @property
    def timeout_delay(self) -> int | None:
        """Microseconds after a window's time at which it is formed in any case."""
        return None if self.timeout is None else round((self.timeout - 1) * self.step.amount)

    def find_problems(self) -> list[str]:
        return list(self._iterate_problems())

    def _iterate_problems(self) -> Iterator[str]:
        if self.step.amount < 1:
            yield "the step of a window must be more than nothing"
        if isinstance(self.size, Extent) and self.size.amount < 1:
            yield "the size of a window must be more than nothing"
        if self.timeout is not None and (self.step.unit is not Unit.TIME or isinstance(self.size, Between)):
            yield "only a window whose step is in time can have a timeout; leave it out, or give a step like '10s'"
        if self.timeout is not None and self.timeout < 1:
            yield f"a timeout is a number of steps from 1 on, not {self.timeout}"
        if self.at_least < 1:
            yield f"a window has at least 1 event, not {self.at_least}"
        if self.unit_pair in _COUNTED_SIZES and isinstance(self.size, Extent) and self.at_least > self.size.amount:
            yield f"a window of {self.size.amount} tokens never has {self.at_least}"


_COUNTED_SIZES = tuple((step, Unit.TOKENS) for step in Unit)
