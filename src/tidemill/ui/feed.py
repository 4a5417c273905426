"""What happens, told to all pages: one poll of the catalog a second for the whole server, however many look."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable

from nicegui import Event as Signal
from nicegui import background_tasks

from tidemill.errors import TidemillError
from tidemill.ports.catalog import CatalogReader
from tidemill.ports.records import Event
from tidemill.ui.context import off_loop
from tidemill.ui.snapshot import Snapshot, take

log = logging.getLogger("tidemill.ui")

PERIOD = 1.0
TAIL = 5000
"""Newest events that are remembered."""
PAGE = 1000
KEPT = 5.0
"""Seconds after which a snapshot is taken anew although nothing happened."""


class Feed:
    """Follows the catalog's events. `changed` is emitted when there are new ones, or when trouble comes or goes."""

    def __init__(self, catalog: CatalogReader) -> None:
        self.catalog = catalog
        self.changed: Signal[[]] = Signal()
        self.events: deque[Event] = deque(maxlen=TAIL)
        self.trouble = ""  # why the catalog could not be asked; empty: it answers
        self._last: int | None = None
        self._snapshot: Snapshot | None = None
        self._taken = 0.0
        self._news = self._reflects = 0  # how often there were any, and how many of these the snapshot shows
        self._taking = asyncio.Lock()

    def start(self) -> None:
        background_tasks.create(self._follow(), name="tidemill feed")

    async def snapshot(self) -> Snapshot:
        """How everything stands: the same for all who ask before something new happens."""
        async with self._taking:
            if self._snapshot is None or self._reflects < self._news or time.monotonic() - self._taken > KEPT:
                # What happens while it is taken it may not show, and so it counts as older than that.
                self._reflects = self._news
                self._snapshot = await off_loop(take, self.catalog)
                self._taken = time.monotonic()
            return self._snapshot

    async def _follow(self) -> None:
        while True:
            await self._poll()
            await asyncio.sleep(PERIOD)

    async def _poll(self) -> None:
        before = self.trouble
        try:
            news = await off_loop(self._unseen)
            self.trouble = ""
        except TidemillError as error:
            news, self.trouble = [], str(error)
        except Exception as error:  # whatever it is, the feed must not end while people look
            log.exception("the event feed failed")
            news, self.trouble = [], f"{type(error).__name__}: {error}"
        if news or self.trouble != before:
            self.events.extend(news)
            self._news += 1
            self.changed.emit()

    def _unseen(self) -> list[Event]:
        if self._last is None:
            self._last = max(0, newest(lambda after: bool(self.catalog.events(after=after, limit=1))) - TAIL)
        found: list[Event] = []
        while page := self.catalog.events(after=self._last, limit=PAGE):
            self._last = page[-1].id
            found += page
        return found


def newest(any_after: Callable[[int], bool]) -> int:
    """The number of the newest event, found by asking whether there are any after some number.

    The log may be long and the catalog reads it from the front, so it is searched: first in leaps, then by halves.

    >>> newest(lambda after: after < 1234), newest(lambda after: False)
    (1234, 0)
    """
    above = 1
    while any_after(above - 1):
        above *= 2
    below = above // 2
    while below < above - 1:
        middle = (below + above) // 2
        below, above = (middle, above) if any_after(middle - 1) else (below, middle)
    return below
