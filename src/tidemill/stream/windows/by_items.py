"""Windows whose size or step is counted, in tokens or in waves, each of which counts once it is complete."""

from abc import abstractmethod
from bisect import insort
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import ClassVar

from tidemill.model.window import Unit, Window
from tidemill.stream.windows import former
from tidemill.stream.windows.former import NEVER, FormerOutput, QueueEntry, WindowFormer

Item = list[QueueEntry]


class CountingFormer(WindowFormer):
    """Counts items in order of completion: each token, or each wave, whose events wait until it is complete."""

    NUMBERS: ClassVar[tuple[str, ...]] = ("formed", "ranked")

    def __init__(self, window: Window) -> None:
        super().__init__(window)
        self.ranked = 0
        self._items: list[Item] = []
        self._waiting: dict[int, Item] = {}
        self._counts_waves = Unit.WAVES in (window.unit_pair or ())

    def add_entry(self, entry: QueueEntry, out: FormerOutput) -> None:
        self.pass_time(entry.arrived, out)
        if not self._counts_waves:
            self._rank_item([entry], entry.arrived, out)
            return
        self._waiting.setdefault(entry.wave, []).append(entry)
        if entry.closes:
            self._rank_item(self._waiting.pop(entry.wave), entry.arrived, out)

    def is_waiting_for(self, wave: int) -> bool:
        return wave in self._waiting

    def complete_wave(self, wave: int, at: int, out: FormerOutput) -> None:
        self.pass_time(at, out)
        self._rank_item(self._waiting.pop(wave), at, out)

    def _rank_item(self, item: Item, at: int, out: FormerOutput) -> None:
        for member in item:
            member.rank = self.ranked
        self.ranked += 1
        out.changed.extend(item)
        self.add_item(item, at, out)

    @abstractmethod
    def add_item(self, item: Item, at: int, out: FormerOutput) -> None:
        """Add an item, completed at this time: it is not in the list yet."""

    def restore_entries(self, entries: Sequence[QueueEntry]) -> None:
        """Restore entries, which are ordered by rank: the parts of an item are adjacent, waiting events have none."""
        for entry in entries:
            if entry.rank < 0:
                self._waiting.setdefault(entry.wave, []).append(entry)
        ranked = groupby((e for e in entries if e.rank >= 0), key=lambda e: e.rank)
        self._items = [list(item) for _, item in ranked]


class _ItemFormer(CountingFormer):
    def form_first_window(self, at: int, out: FormerOutput) -> None:
        """Form a window of the first items; used ones are removed if the window deletes them."""
        items = self._items[: self.size]
        if self.form_window(_flatten_items(items), None, at, out):
            del self._items[: self.size]
            former.expire_entries(_flatten_items(items), out)


class CountByCount(_ItemFormer):
    """Every x items, a window of y; where the step is larger than the size, the items between are in no window."""

    NUMBERS = ("formed", "ranked", "skip")

    def __init__(self, window: Window) -> None:
        super().__init__(window)
        self.skip = 0  # items still to skip

    def add_item(self, item: Item, at: int, out: FormerOutput) -> None:
        if self.skip:
            self.skip -= 1
            former.expire_entries(item, out)
            return
        self._items.append(item)
        if len(self._items) == self.size:
            self.form_first_window(at, out)
            former.expire_entries(_flatten_items(self._items[: self.step]), out)
            del self._items[: self.step]
            self.skip = max(0, self.step - self.size)


class TimeByCount(_ItemFormer):
    """Every x seconds, a window of the first y items from there on, as soon as there are that many.

    Windows begin at multiples of the step, if an item falls within the step. The time of a wave is that of its latest
    event.
    """

    NUMBERS = ("formed", "ranked", "floor")

    def __init__(self, window: Window) -> None:
        super().__init__(window)
        self.floor = NEVER
        delay = window.timeout_delay
        self._timeout = None if delay is None else self.step + delay

    def add_item(self, item: Item, at: int, out: FormerOutput) -> None:
        if _find_item_time(item) < self.floor:
            former.drop_late_entries(item, out)
            return
        insort(self._items, item, key=_build_sort_key)
        while len(self._items) >= self.size:
            self._form_next_window(at, out)

    def pass_time(self, clock: int, out: FormerOutput) -> None:
        if self._timeout is None:
            return
        while self._items and self._find_start() + self._timeout <= clock:
            self._form_next_window(self._find_start() + self._timeout, out)
        self._advance_floor(((clock - self._timeout) // self.step + 1) * self.step, out)

    def find_due_time(self) -> int | None:
        return self._find_start() + self._timeout if self._items and self._timeout is not None else None

    def restore_entries(self, entries: Sequence[QueueEntry]) -> None:
        super().restore_entries(entries)
        self._items.sort(key=_build_sort_key)

    def _find_start(self) -> int:
        return _find_item_time(self._items[0]) // self.step * self.step

    def _form_next_window(self, time: int, out: FormerOutput) -> None:
        start = self._find_start()
        self.form_first_window(time, out)
        self._advance_floor(start + self.step, out)

    def _advance_floor(self, floor: int, out: FormerOutput) -> None:
        self.floor = max(self.floor, floor)
        items = self._items
        while items and _find_item_time(items[0]) < self.floor:
            former.expire_entries(items.pop(0), out)


def _find_item_time(item: Item) -> int:
    return max(e.time for e in item)


def _build_sort_key(item: Item) -> tuple[int, int]:
    return _find_item_time(item), item[0].rank


def _flatten_items(items: Iterable[Item]) -> list[QueueEntry]:
    return [e for item in items for e in item]


class _WaveFormer(CountingFormer):
    """Every x waves, the first y tokens or seconds from their beginning; if those do not fill it, also from later ones.

    Waves are ordered by completion, and never interleaved.
    """

    def add_item(self, item: Item, at: int, out: FormerOutput) -> None:
        waves = self._items
        waves.append(item)
        while len(waves) >= self.step and (members := self.find_filled_window(waves)) is not None:
            self.form_window(members, None, at, out)
            former.expire_entries([e for wave in waves[: self.step] for e in wave], out)
            del waves[: self.step]

    @abstractmethod
    def find_filled_window(self, waves: list[list[QueueEntry]]) -> list[QueueEntry] | None:
        """Return the events of the window that begins with these waves; None: it is not filled yet."""


class WavesOverTokens(_WaveFormer):
    def find_filled_window(self, waves: list[list[QueueEntry]]) -> list[QueueEntry] | None:
        tokens = former.list_present(e for wave in waves for e in wave)
        return tokens[: self.size] if len(tokens) >= self.size else None


class WavesOverTime(_WaveFormer):
    """The time begins with the first wave's earliest event, and is over with an event after its end."""

    def find_filled_window(self, waves: list[list[QueueEntry]]) -> list[QueueEntry] | None:
        start = min(e.time for e in waves[0])
        end = start + self.size
        if all(e.time < end for wave in waves for e in wave):
            return None
        return former.list_present(e for wave in waves for e in wave if start <= e.time < end)
