"""The window operator: queues by group, which turn batches of events into windows and a delta of their state.

The result depends only on the order of arrival and the arrival times that events carry. So the same events give the
same windows whether they come in one batch or in a thousand.
"""

from collections import defaultdict, deque
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count

from tidemill.model.window import Unit, Window
from tidemill.stream.waves import WaveEnd
from tidemill.stream.windows import by_items
from tidemill.stream.windows.between import BetweenMarks
from tidemill.stream.windows.former import FormedWindow, FormerOutput, QueueEntry, WindowFormer
from tidemill.stream.windows.looking_back import TokensOverTime, TokensOverWaves
from tidemill.stream.windows.time_by_time import TimeByTime

Group = Hashable
"""The values that events are grouped by."""

FORMS: Mapping[tuple[Unit, Unit] | None, type[WindowFormer]] = {
    (Unit.TIME, Unit.TIME): TimeByTime,
    (Unit.TIME, Unit.TOKENS): by_items.TimeByCount,
    (Unit.TIME, Unit.WAVES): by_items.TimeByCount,
    (Unit.TOKENS, Unit.TOKENS): by_items.CountByCount,
    (Unit.TOKENS, Unit.TIME): TokensOverTime,
    (Unit.TOKENS, Unit.WAVES): TokensOverWaves,
    (Unit.WAVES, Unit.TOKENS): by_items.WavesOverTokens,
    (Unit.WAVES, Unit.TIME): by_items.WavesOverTime,
    (Unit.WAVES, Unit.WAVES): by_items.CountByCount,
    None: BetweenMarks,
}
"""Window formers by the units of step and size; None: by condition."""


@dataclass(frozen=True, slots=True)
class WindowDelta:
    """The change of the state by a batch."""

    numbers: Mapping[Group, tuple[int, ...]]  # of the groups that changed
    entries: Mapping[int, tuple[Group, QueueEntry]]  # by event: new in a queue, or changed
    removed: frozenset[int]  # events that were removed from their queues


@dataclass(frozen=True, slots=True)
class WindowResult:
    windows: list[tuple[Group, FormedWindow]] = field(default_factory=list)  # those of a group in order
    expired: list[tuple[Group, QueueEntry]] = field(default_factory=list)
    late: list[tuple[Group, QueueEntry]] = field(default_factory=list)


class WindowQueues:
    """The queues of a partition, one for each of its groups."""

    def __init__(self, window: Window) -> None:
        self._window = window
        self._groups: dict[Group, WindowFormer] = {}
        self._due: list[tuple[int, int, Group]] = []
        self._order = count()  # groups need not be comparable

    def restore_queues(
        self, numbers: Mapping[Group, tuple[int, ...]], entries: Iterable[tuple[Group, QueueEntry]]
    ) -> None:
        """Restore a state: the result of all deltas, applied in order."""
        queues: dict[Group, list[QueueEntry]] = defaultdict(list)
        for group, entry in entries:
            queues[group].append(entry)
        for group, values in numbers.items():
            former = self._get_former(group)
            for name, number in zip(former.NUMBERS, values, strict=True):
                setattr(former, name, number)
            former.restore_entries(sorted(queues[group], key=lambda e: (e.rank, e.event)))
            self._schedule_group(group, former)

    def run(
        self, events: Iterable[tuple[Group, QueueEntry]], now: int, ends: Sequence[WaveEnd] = ()
    ) -> tuple[WindowResult, WindowDelta]:
        """Add events, in order of arrival, and form the windows that are due at `now`, after all arrivals."""
        outs: dict[Group, FormerOutput] = defaultdict(FormerOutput)
        new: dict[int, tuple[Group, QueueEntry]] = {}
        pending_ends = deque(ends)
        for position, (group, entry) in enumerate(events):
            self._complete_waves(pending_ends, position, outs)
            self._get_former(group).add_entry(entry, outs[group])
            new[entry.event] = (group, entry)
        self._complete_waves(pending_ends, len(new), outs)
        for group in outs:
            self._schedule_group(group, self._groups[group])
        self._pass_time(now, outs)
        return _build_result(outs), self._build_delta(outs, new)

    def _complete_waves(self, pending_ends: deque[WaveEnd], position: int, outs: dict[Group, FormerOutput]) -> None:
        """Complete the waves that end before the event at this position."""
        while pending_ends and pending_ends[0].before <= position:
            end = pending_ends.popleft()
            for group, former in self._groups.items():
                if former.is_waiting_for(end.wave):
                    former.complete_wave(end.wave, end.arrived, outs[group])

    def _pass_time(self, now: int, outs: dict[Group, FormerOutput]) -> None:
        while self._due and self._due[0][0] <= now:
            group = heappop(self._due)[2]
            former = self._groups[group]
            former.pass_time(now, outs[group])
            self._schedule_group(group, former)

    def _schedule_group(self, group: Group, former: WindowFormer) -> None:
        """Schedule the due time of a group. Outdated entries stay: an unnecessary check does no harm."""
        due = former.find_due_time()
        if due is not None:
            heappush(self._due, (due, next(self._order), group))

    def _get_former(self, group: Group) -> WindowFormer:
        former = self._groups.get(group)
        if former is None:
            former = self._groups[group] = FORMS[self._window.unit_pair](self._window)
        return former

    def _build_delta(self, outs: Mapping[Group, FormerOutput], new: dict[int, tuple[Group, QueueEntry]]) -> WindowDelta:
        removed = {e.event for out in outs.values() for e in out.removed}
        changed = {e.event: (group, e) for group, out in outs.items() for e in out.changed}
        entries = {event: entry for event, entry in (new | changed).items() if event not in removed}
        numbers = {g: tuple(getattr(self._groups[g], n) for n in self._groups[g].NUMBERS) for g in outs}
        return WindowDelta(numbers, entries, frozenset(removed - new.keys()))


def _build_result(outs: Mapping[Group, FormerOutput]) -> WindowResult:
    """Collect the results of all groups; windows are ordered by their formation."""
    windows = [(group, w) for group, out in outs.items() for w in out.windows]
    windows.sort(key=lambda w: w[1].formed_at)
    expired = [(group, e) for group, out in outs.items() for e in out.expired]
    late = [(group, e) for group, out in outs.items() for e in out.late]
    return WindowResult(windows, expired, late)
