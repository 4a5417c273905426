"""The semantics of windows in plain form: one group and all its events, evaluated from scratch.

There is no incremental state. At each time (an arrival or a clock tick) every rule evaluates the whole history.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from tidemill.model.window import Between, Extent, Unit, Window


@dataclass
class Event:
    event: int
    time: int
    arrived: int
    wave: int = 0
    closes: bool = False
    opens: bool = False
    # the outcome of the event
    late: bool = False
    expired: bool = False
    used: bool = False
    deleted: bool = False
    over: bool = False  # a punctuation, which is in no queue

    @property
    def waits(self) -> bool:
        return not (self.late or self.expired or self.deleted or self.over)


@dataclass
class History:
    window: Window
    came: list[Event] = field(default_factory=list)
    formed: list[tuple[int, tuple[int, ...]]] = field(default_factory=list)  # time and events of each window

    @property
    def size(self) -> int:
        assert isinstance(self.window.size, Extent)
        return self.window.size.amount

    @property
    def step(self) -> int:
        return self.window.step.amount

    def form(self, members: list[Event], at: int) -> bool:
        if len(members) < self.window.at_least:
            return False
        self.formed.append((at, tuple(e.event for e in members)))
        for event in members:
            event.used = True
            event.deleted = self.window.delete_used
        return True

    def expire(self, events: list[Event]) -> None:
        for event in events:
            event.expired = event.expired or event.waits


Rule = Callable[[History, "Event | None", int], None]
"""Called with every event on its arrival, and with None for the clock before each event and at the end."""


def _list_multiples(low: int, high: int, step: int) -> Iterator[int]:
    """The multiples of a step within [low, high]."""
    first = -(-low // step) * step
    return iter(range(first, high + 1, step))


class TimeByTime:
    def __init__(self) -> None:
        self.watermark = -(10**9)

    def __call__(self, h: History, new: Event | None, clock: int) -> None:
        if new is not None:
            new.late = new.time < self.first_open(h)
            self.end(h, new.time, clock)
        elif h.window.timeout is not None:
            self.end(h, clock - round((h.window.timeout - 1) * h.step), None)

    def first_open(self, h: History) -> int:
        starts = _list_multiples(self.watermark - h.size - h.step, self.watermark + h.step, h.step)
        return min(start for start in starts if start + h.size > self.watermark)

    def end(self, h: History, watermark: int, at: int | None) -> None:
        """Form the windows that end at or before the watermark and after the previous one."""
        before, self.watermark = self.watermark, max(self.watermark, watermark)
        delay = round(((h.window.timeout or 1) - 1) * h.step)
        waiting = [e.time for e in h.came if e.waits]
        for start in _list_multiples(min(waiting) - h.size, max(waiting), h.step) if waiting else ():
            end = start + h.size
            if before < end <= watermark:
                members = [e for e in h.came if e.waits and start <= e.time < end]
                members.sort(key=lambda e: (e.time, e.event))
                h.form(members, end + delay if at is None else at)
        h.expire([e for e in h.came if e.time < self.first_open(h)])


def _list_complete_waves(h: History) -> list[list[Event]]:
    """Complete waves in order of completion."""
    return [[e for e in h.came if e.wave == last.wave] for last in h.came if last.closes]


def _list_tokens(h: History) -> list[list[Event]]:
    return [[e] for e in h.came]


class TimeByCount:
    def __init__(self, items: Callable[[History], list[list[Event]]]) -> None:
        self.items = items
        self.floor = -(10**9)

    def __call__(self, h: History, new: Event | None, clock: int) -> None:
        if new is None:
            self.pass_time(h, clock)
            return
        for item in self.items(h):
            for event in item if new in item else []:
                event.late = _find_time(item) < self.floor
        while len(self.queue(h)) >= h.size:
            self.next(h, self.start(h), clock)

    def pass_time(self, h: History, clock: int) -> None:
        if h.window.timeout is None:
            return
        limit = h.step + round((h.window.timeout - 1) * h.step)
        while self.queue(h) and self.start(h) + limit <= clock:
            self.next(h, self.start(h), self.start(h) + limit)
        over = [s for s in _list_multiples(clock - limit - 2 * h.step, clock, h.step) if s + limit <= clock]
        self.floor = max(self.floor, max(over) + h.step)
        h.expire([e for item in self.queue(h) for e in item if _find_time(item) < self.floor])

    def queue(self, h: History) -> list[list[Event]]:
        """The waiting items by time; those of equal time in the order of creation."""
        return sorted((item for item in self.items(h) if all(e.waits for e in item)), key=_find_time)

    def start(self, h: History) -> int:
        return _find_time(self.queue(h)[0]) // h.step * h.step

    def next(self, h: History, start: int, at: int) -> None:
        h.form([e for item in self.queue(h)[: h.size] for e in item], at)
        self.floor = max(self.floor, start + h.step)
        h.expire([e for item in self.queue(h) for e in item if _find_time(item) < self.floor])


def _find_time(item: list[Event]) -> int:
    return max(e.time for e in item)


class CountByCount:
    """A window begins after every `step` items; deleting used items makes the step at least the size."""

    def __init__(self, items: Callable[[History], list[list[Event]]]) -> None:
        self.items = items
        self.start = 0

    def __call__(self, h: History, new: Event | None, clock: int) -> None:
        items = self.items(h)
        if new is not None and len(items) == self.start + h.size and new in items[-1]:
            used = h.form([e for item in items[self.start :] for e in item], clock)
            self.start += max(h.step, h.size) if used and h.window.delete_used else h.step
        h.expire([e for item in items[: self.start] for e in item])


class TokensOverTime:
    def __init__(self) -> None:
        self.counted = 0

    def __call__(self, h: History, new: Event | None, clock: int) -> None:
        if new is None:
            return
        before = max((e.time for e in h.came[:-1] if not e.late), default=-(10**9))
        new.late = new.time <= before - h.size
        if new.late:
            return
        newest = max(before, new.time)
        h.expire([e for e in h.came if e.time <= newest - h.size])
        self.counted += 1
        if self.counted % h.step == 0:
            h.form(sorted((e for e in h.came if e.waits), key=lambda e: (e.time, e.event)), clock)


class TokensOverWaves:
    def __init__(self) -> None:
        self.counted = 0
        self.waves: list[int] = []  # all waves that began, in order

    def __call__(self, h: History, new: Event | None, clock: int) -> None:
        if new is None:
            return
        current, earlier = self.waves[-h.size :], self.waves[: -h.size]
        new.late = new.wave not in current and any(new.wave <= w for w in earlier)
        if new.late:
            return
        if new.wave not in current:
            self.waves.append(new.wave)
        current = self.waves[-h.size :]
        h.expire([e for e in h.came if e.wave not in current])
        self.counted += 1
        if self.counted % h.step == 0:
            h.form(sorted((e for e in h.came if e.waits), key=lambda e: (current.index(e.wave), e.event)), clock)


class ByWaves:
    def __init__(self) -> None:
        self.start = 0

    def __call__(self, h: History, new: Event | None, clock: int) -> None:
        while new is not None and len(waves := _list_complete_waves(h)[self.start :]) >= h.step:
            members = self.members(h, waves)
            if members is None:
                return
            h.form(members, clock)
            self.start += h.step
            h.expire([e for wave in _list_complete_waves(h)[: self.start] for e in wave])

    def members(self, h: History, waves: list[list[Event]]) -> list[Event] | None:
        tokens = [e for wave in waves for e in wave if e.waits]
        if h.window.unit_pair == (Unit.WAVES, Unit.TOKENS):
            return tokens[: h.size] if len(tokens) >= h.size else None
        start = min(e.time for e in waves[0])
        over = any(e.time >= start + h.size for wave in waves for e in wave)
        return [e for e in tokens if start <= e.time < start + h.size] if over else None


def between(h: History, new: Event | None, clock: int) -> None:
    """The events since the last closing event, or since the first opening event after it."""
    marks = h.window.size
    assert isinstance(marks, Between)
    if new is None:
        return
    closed = max((n for n, e in enumerate(h.came[:-1]) if e.closes and _was_open(h, n)), default=-1)
    events = h.came[closed + 1 :]
    if marks.opens is not None:
        opening = next((n for n, e in enumerate(events) if e.opens), len(events))
        h.expire(events[:opening])
        events = events[opening:]
    if events and new.closes:
        new.over = marks.punctuation
        h.form([e for e in events if not e.over], clock)
        h.expire(events)


def _was_open(h: History, position: int) -> bool:
    marks = h.window.size
    assert isinstance(marks, Between)
    if marks.opens is None:
        return True
    for number in range(position, -1, -1):
        if h.came[number].opens:
            return True
        if number < position and h.came[number].closes:
            return False
    return False


RULES: dict[tuple[Unit, Unit] | None, Callable[[], Rule]] = {
    (Unit.TIME, Unit.TIME): TimeByTime,
    (Unit.TIME, Unit.TOKENS): lambda: TimeByCount(_list_tokens),
    (Unit.TIME, Unit.WAVES): lambda: TimeByCount(_list_complete_waves),
    (Unit.TOKENS, Unit.TOKENS): lambda: CountByCount(_list_tokens),
    (Unit.TOKENS, Unit.TIME): TokensOverTime,
    (Unit.TOKENS, Unit.WAVES): TokensOverWaves,
    (Unit.WAVES, Unit.TOKENS): ByWaves,
    (Unit.WAVES, Unit.TIME): ByWaves,
    (Unit.WAVES, Unit.WAVES): lambda: CountByCount(_list_complete_waves),
    None: lambda: between,
}


def history(window: Window, events: list[Event], until: int) -> History:
    """The history of one group's events, evaluated until a time after all of them."""
    h, rule = History(window), RULES[window.unit_pair]()
    for event in events:
        rule(h, None, event.arrived)
        h.came.append(event)
        rule(h, event, event.arrived)
    rule(h, None, until)
    return h
