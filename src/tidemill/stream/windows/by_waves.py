"""Every x waves, the first y tokens or seconds from their beginning. A wave counts once it is complete.

Waves are ordered by completion, and never interleaved; events of an incomplete wave are ignored. If the x waves do not
fill the window, the following ones are included.
"""

from __future__ import annotations

from abc import abstractmethod

from tidemill.model.window import Window
from tidemill.stream.windows.counting import CountingFormer
from tidemill.stream.windows.former import FormerOutput, QueueEntry, expire_entries, list_present
from tidemill.stream.windows.items import Item, WaveSource


class _WaveFormer(CountingFormer):
    def __init__(self, window: Window) -> None:
        super().__init__(window, WaveSource())

    def add_item(self, item: Item, at: int, out: FormerOutput) -> None:
        waves = self._items.list
        waves.append(item)
        while len(waves) >= self.step and (members := self.find_filled_window(waves)) is not None:
            self.form_window(members, None, at, out)
            expire_entries([e for wave in waves[: self.step] for e in wave], out)
            del waves[: self.step]

    @abstractmethod
    def find_filled_window(self, waves: list[list[QueueEntry]]) -> list[QueueEntry] | None:
        """Return the events of the window that begins with these waves; None: it is not filled yet."""


class WavesOverTokens(_WaveFormer):
    def find_filled_window(self, waves: list[list[QueueEntry]]) -> list[QueueEntry] | None:
        tokens = list_present(e for wave in waves for e in wave)
        return tokens[: self.size] if len(tokens) >= self.size else None


class WavesOverTime(_WaveFormer):
    """The time begins with the first wave's earliest event, and is over with an event after its end."""

    def find_filled_window(self, waves: list[list[QueueEntry]]) -> list[QueueEntry] | None:
        start = min(e.time for e in waves[0])
        end = start + self.size
        if all(e.time < end for wave in waves for e in wave):
            return None
        return list_present(e for wave in waves for e in wave if start <= e.time < end)
