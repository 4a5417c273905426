"""Every x waves, the first y tokens or seconds from where they begin. A wave counts once it is complete.

The waves follow each other in the order in which they were completed, whole; what came of a wave that is not complete
is not looked at. If the x waves do not fill the window, those after them are drawn in.
"""

from __future__ import annotations

from abc import abstractmethod

from tidemill.model.window import Window
from tidemill.stream.windows.counting import Counting
from tidemill.stream.windows.former import Entry, Out, leave, present
from tidemill.stream.windows.items import Item, Waves


class _ByWaves(Counting):
    def __init__(self, window: Window) -> None:
        super().__init__(window, Waves())

    def take(self, item: Item, at: int, out: Out) -> None:
        waves = self._items.list
        waves.append(item)
        while len(waves) >= self.step and (members := self.filled(waves)) is not None:
            self.form(members, None, at, out)
            leave([e for wave in waves[: self.step] for e in wave], out)
            del waves[: self.step]

    @abstractmethod
    def filled(self, waves: list[list[Entry]]) -> list[Entry] | None:
        """The events of the window that begins with these waves; None: it is not filled yet."""


class WavesOverTokens(_ByWaves):
    def filled(self, waves: list[list[Entry]]) -> list[Entry] | None:
        tokens = present(e for wave in waves for e in wave)
        return tokens[: self.size] if len(tokens) >= self.size else None


class WavesOverTime(_ByWaves):
    """The time begins with the first wave's earliest event, and is over with an event behind its end."""

    def filled(self, waves: list[list[Entry]]) -> list[Entry] | None:
        start = min(e.time for e in waves[0])
        end = start + self.size
        if all(e.time < end for wave in waves for e in wave):
            return None
        return present(e for wave in waves for e in wave if start <= e.time < end)
