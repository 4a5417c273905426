"""Which former forms which windows."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tidemill.model.window import Unit, Window
from tidemill.stream.windows.between import BetweenMarks
from tidemill.stream.windows.by_items import CountByCount, TimeByCount
from tidemill.stream.windows.by_waves import WavesOverTime, WavesOverTokens
from tidemill.stream.windows.former import WindowFormer
from tidemill.stream.windows.items import TokenSource, WaveSource
from tidemill.stream.windows.looking_back import TokensOverTime, TokensOverWaves
from tidemill.stream.windows.time_by_time import TimeByTime

FORMS: Mapping[tuple[Unit, Unit] | None, Callable[[Window], WindowFormer]] = {
    (Unit.TIME, Unit.TIME): TimeByTime,
    (Unit.TIME, Unit.TOKENS): lambda window: TimeByCount(window, TokenSource()),
    (Unit.TIME, Unit.WAVES): lambda window: TimeByCount(window, WaveSource()),
    (Unit.TOKENS, Unit.TOKENS): lambda window: CountByCount(window, TokenSource()),
    (Unit.TOKENS, Unit.TIME): TokensOverTime,
    (Unit.TOKENS, Unit.WAVES): TokensOverWaves,
    (Unit.WAVES, Unit.TOKENS): WavesOverTokens,
    (Unit.WAVES, Unit.TIME): WavesOverTime,
    (Unit.WAVES, Unit.WAVES): lambda window: CountByCount(window, WaveSource()),
    None: BetweenMarks,
}
"""By the units of step and size; None: by condition."""
