"""Window declarations: which events of a stream a task processes together.

A window has a *size* and a *step* to the next window, each in time, tokens (events) or waves. Or it extends from an
event that opens it to one that closes it. `docs/streams.md` defines each of the nine combinations.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypedDict, Unpack

from tidemill.model.units import parse_duration

MICROSECONDS = 1_000_000


class Unit(StrEnum):
    TIME = "time"
    TOKENS = "tokens"
    WAVES = "waves"


@dataclass(frozen=True, slots=True)
class Extent:
    """A size or a step: microseconds, or a number of tokens or waves."""

    unit: Unit
    amount: int

    @classmethod
    def from_text(cls, text: str) -> Extent:
        """Parse an extent.

        >>> Extent.from_text("5 tokens"), Extent.from_text("1 wave").unit.value, Extent.from_text("1.5 s").amount
        (Extent(unit=<Unit.TOKENS: 'tokens'>, amount=5), 'waves', 1500000)
        """
        match = _COUNTED.fullmatch(text.strip().lower())
        if match:
            return cls(Unit(match[2] + "s"), int(match[1]))
        try:
            return cls(Unit.TIME, round(parse_duration(text) * MICROSECONDS))
        except ValueError as error:
            raise ValueError(f"not an extent: {text!r}; write it like '30s', '5 tokens' or '2 waves'") from error


_COUNTED = re.compile(r"(\d+) (token|wave)s?")
ONE_TOKEN = Extent(Unit.TOKENS, 1)


GROUP_FUNCTIONS: Mapping[str, Callable[[Any], Any]] = {
    "as-set": lambda value: None if value is None else tuple(sorted(set(value), key=repr)),
    "length": lambda value: None if value is None else len(value),
    "lower": lambda value: None if value is None else str(value).lower(),
}
"""Functions that may be applied to a value before events are grouped by it."""


@dataclass(frozen=True, slots=True)
class GroupKey:
    """A value to group by: a column, a path inside it, or a function of that."""

    path: tuple[str, ...]
    function: str | None = None

    @classmethod
    def from_text(cls, text: str) -> GroupKey:
        """Parse a path such as `/entities/hashtags`, `user.name` or `tags/0`, or a function of one.

        >>> GroupKey.from_text("as-set(/entities/hashtags)")
        GroupKey(path=('entities', 'hashtags'), function='as-set')
        """
        call = _CALLED.fullmatch(text.strip())
        function, inner = (call[1], call[2]) if call else (None, text)
        path = tuple(re.split(r"[/.]", inner.strip().removeprefix("/")))
        if function is not None and function not in GROUP_FUNCTIONS:
            raise ValueError(
                f"cannot group by {text!r}: its functions are {', '.join(GROUP_FUNCTIONS)}, not {function!r}"
            )
        if not all(_STEP.fullmatch(step) for step in path):
            raise ValueError(f"cannot group by {text!r}; write a path like 'user', '/entities/hashtags' or 'tags/0'")
        return cls(path, function)

    @property
    def column_name(self) -> str:
        return self.path[0]

    def extract_value(self, value: Any) -> Any:
        """The group value for an event with this column value; None where the path does not exist.

        >>> GroupKey.from_text("as-set(e/tags)").extract_value({"tags": ["b", "a", "b"]})
        ('a', 'b')
        """
        for step in self.path[1:]:
            value = _get_member(value, step)
        return _to_hashable(value if self.function is None else GROUP_FUNCTIONS[self.function](value))


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
    opens: str | None = None  # None: a window opens right after the previous one
    punctuation: bool = False  # the closing event is a marker without data: it is part of no window


class WindowFields(TypedDict, total=False):
    """The fields of a window beside its size, step and group."""

    timeout: float | None
    delete_used: bool
    at_least: int
    time: str | None


@dataclass(frozen=True, slots=True)
class Window:
    """A window on a task's input. Each group has a separate queue and separate windows.

    `timeout`: a window whose step is in time is formed at the latest this number of steps after the end of the
    previous one, even if no later event shows that it has ended. 1: as soon as its time has passed.
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
        cls, size: str | Between, step: str | None = None, *, by: Sequence[str] = (), **options: Unpack[WindowFields]
    ) -> Window:
        """Declare a window in one line: `Window.from_text("30s", "1s", by=["user"])`; the default step is one event.

        >>> Window.from_text("5 tokens", "3 tokens", by=["/user/id"]).find_problems()
        []
        """
        extent = size if isinstance(size, Between) else Extent.from_text(size)
        step_extent = ONE_TOKEN if step is None else Extent.from_text(step)
        return cls(extent, step_extent, tuple(map(GroupKey.from_text, by)), **options)

    @property
    def unit_pair(self) -> tuple[Unit, Unit] | None:
        """The units of step and size; None if the window is defined by conditions."""
        return None if isinstance(self.size, Between) else (self.step.unit, self.size.unit)

    @property
    def timeout_delay(self) -> int | None:
        """Microseconds after a window's end at which it is formed in any case."""
        return None if self.timeout is None else round((self.timeout - 1) * self.step.amount)

    def find_problems(self) -> list[str]:
        return list(self._iterate_problems())

    def _iterate_problems(self) -> Iterator[str]:
        if self.step.amount < 1:
            yield "the step of a window must be greater than 0"
        if isinstance(self.size, Extent) and self.size.amount < 1:
            yield "the size of a window must be greater than 0"
        if self.timeout is not None and (self.step.unit is not Unit.TIME or isinstance(self.size, Between)):
            yield "only a window whose step is in time can have a timeout; leave it out, or give a step like '10s'"
        if self.timeout is not None and self.timeout < 1:
            yield f"a timeout is a number of steps from 1 on, not {self.timeout}"
        if self.at_least < 1:
            yield f"a window has at least 1 event, not {self.at_least}"
        if self.unit_pair in _COUNTED_SIZES and isinstance(self.size, Extent) and self.at_least > self.size.amount:
            yield f"a window of {self.size.amount} tokens never has {self.at_least}"


_COUNTED_SIZES = tuple((step, Unit.TOKENS) for step in Unit)
