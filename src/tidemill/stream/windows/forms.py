"""Which former forms which windows."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tidemill.model.window import Unit, Window
from tidemill.stream.windows.between import BetweenMarks
from tidemill.stream.windows.by_items import CountByCount, TimeByCount
from tidemill.stream.windows.by_waves import WavesOverTime, WavesOverTokens
from tidemill.stream.windows.former import Former
from tidemill.stream.windows.items import Tokens, Waves
from tidemill.stream.windows.looking_back import TokensOverTime, TokensOverWaves
from tidemill.stream.windows.time_by_time import TimeByTime

FORMS: Mapping[tuple[Unit, Unit] | None, Callable[[Window], Former]] = {
    (Unit.TIME, Unit.TIME): TimeByTime,
    (Unit.TIME, Unit.TOKENS): lambda window: TimeByCount(window, Tokens()),
    (Unit.TIME, Unit.WAVES): lambda window: TimeByCount(window, Waves()),
    (Unit.TOKENS, Unit.TOKENS): lambda window: CountByCount(window, Tokens()),
    (Unit.TOKENS, Unit.TIME): TokensOverTime,
    (Unit.TOKENS, Unit.WAVES): TokensOverWaves,
    (Unit.WAVES, Unit.TOKENS): WavesOverTokens,
    (Unit.WAVES, Unit.TIME): WavesOverTime,
    (Unit.WAVES, Unit.WAVES): lambda window: CountByCount(window, Waves()),
    None: BetweenMarks,
}
"""By the units of step and size; None: by condition."""
