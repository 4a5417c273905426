"""The window operator: queues by group, fed with batches of events, giving windows and a delta of its state.

The order of arrival decides everything, and so do the moments of arrival that events carry. So the same events give the
same windows whether they come in one batch or in a thousand.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count

from tidemill.model.window import Window
from tidemill.stream.waves import End
from tidemill.stream.windows.former import Entry, Formed, Former, Out
from tidemill.stream.windows.forms import FORMS

Group = Hashable
"""The values that events are grouped by."""


@dataclass(frozen=True, slots=True)
class Delta:
    """How a batch changed the state."""

    numbers: Mapping[Group, tuple[int, ...]]  # of the groups that changed
    entries: Mapping[int, tuple[Group, Entry]]  # by event: new in a queue, or changed
    left: frozenset[int]  # events that are in no queue any more


@dataclass(frozen=True, slots=True)
class Result:
    """What a batch came to. The windows of a group are in order."""

    windows: list[tuple[Group, Formed]] = field(default_factory=list)
    expired: list[tuple[Group, Entry]] = field(default_factory=list)
    late: list[tuple[Group, Entry]] = field(default_factory=list)


class Windows:
    """The queues of a partition: all groups of events that belong there."""

    def __init__(self, window: Window) -> None:
        self._window = window
        self._groups: dict[Group, Former] = {}
        self._due: list[tuple[int, int, Group]] = []
        self._order = count()  # groups need not be comparable

    def restore(self, numbers: Mapping[Group, tuple[int, ...]], entries: Iterable[tuple[Group, Entry]]) -> None:
        """Go on from a state: that of all deltas since the beginning, applied one after the other."""
        queues: dict[Group, list[Entry]] = defaultdict(list)
        for group, entry in entries:
            queues[group].append(entry)
        for group, known in numbers.items():
            former = self._former(group)
            for name, number in zip(former.NUMBERS, known, strict=True):
                setattr(former, name, number)
            former.restore(sorted(queues[group], key=lambda e: (e.rank, e.event)))
            self._remember(group, former)

    def run(self, events: Iterable[tuple[Group, Entry]], now: int, ends: Sequence[End] = ()) -> tuple[Result, Delta]:
        """Take events in, in their order of arrival, and form what is due at `now`, when all of them have arrived."""
        outs: dict[Group, Out] = defaultdict(Out)
        new: dict[int, tuple[Group, Entry]] = {}
        words = deque(ends)
        for place, (group, entry) in enumerate(events):
            self._end(words, place, outs)
            self._former(group).arrive(entry, outs[group])
            new[entry.event] = (group, entry)
        self._end(words, len(new), outs)
        for group in outs:
            self._remember(group, self._groups[group])
        self._pass_time(now, outs)
        return _result(outs), self._delta(outs, new)

    def _end(self, words: deque[End], place: int, outs: dict[Group, Out]) -> None:
        """Complete the waves of which it is said before the event in this place."""
        while words and words[0].before <= place:
            word = words.popleft()
            for group, former in self._groups.items():
                if former.waits_for(word.wave):
                    former.complete(word.wave, word.arrived, outs[group])

    def _pass_time(self, now: int, outs: dict[Group, Out]) -> None:
        while self._due and self._due[0][0] <= now:
            group = heappop(self._due)[2]
            former = self._groups[group]
            former.pass_time(now, outs[group])
            self._remember(group, former)

    def _remember(self, group: Group, former: Former) -> None:
        """Moments that have changed since are remembered as well: looking in vain does no harm."""
        due = former.due()
        if due is not None:
            heappush(self._due, (due, next(self._order), group))

    def _former(self, group: Group) -> Former:
        former = self._groups.get(group)
        if former is None:
            former = self._groups[group] = FORMS[self._window.form](self._window)
        return former

    def _delta(self, outs: Mapping[Group, Out], new: dict[int, tuple[Group, Entry]]) -> Delta:
        left = {e.event for out in outs.values() for e in out.left}
        changed = {e.event: (group, e) for group, out in outs.items() for e in out.changed}
        entries = {event: kept for event, kept in (new | changed).items() if event not in left}
        numbers = {g: tuple(getattr(self._groups[g], n) for n in self._groups[g].NUMBERS) for g in outs}
        return Delta(numbers, entries, frozenset(left - new.keys()))


def _result(outs: Mapping[Group, Out]) -> Result:
    """Windows in the order in which they were formed, over all groups."""
    windows = [(group, w) for group, out in outs.items() for w in out.windows]
    windows.sort(key=lambda w: w[1].at)
    expired = [(group, e) for group, out in outs.items() for e in out.expired]
    late = [(group, e) for group, out in outs.items() for e in out.late]
    return Result(windows, expired, late)
