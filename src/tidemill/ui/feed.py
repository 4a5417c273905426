"""The event feed of all pages: one poll of the catalog per second, regardless of the number of viewers."""

import asyncio
import logging
import time
from collections import deque

from nicegui import Event as Signal
from nicegui import background_tasks

from tidemill.catalog import SqlCatalog
from tidemill.errors import TidemillError
from tidemill.model.error_summary import summarize_error
from tidemill.ports.records import Event
from tidemill.ui.elements import run_off_loop
from tidemill.ui.snapshot import ProjectSnapshot, take_snapshot

log = logging.getLogger("tidemill.ui")

POLL_SECONDS = 1.0
MAX_EVENTS = 5000
"""The number of newest events in memory."""
PAGE_SIZE = 1000
MAX_SNAPSHOT_AGE = 5.0
"""Seconds after which a snapshot is read again although nothing happened."""


class CatalogFeed:
    """Follows the catalog's events. `changed`: there are new ones, or the catalog failed or recovered."""

    def __init__(self, catalog: SqlCatalog) -> None:
        self.catalog = catalog
        self.changed: Signal[[]] = Signal()
        self.events: deque[Event] = deque(maxlen=MAX_EVENTS)
        self.problem = ""  # why the catalog could not be read; empty: it can
        self._last: int | None = None
        self._snapshot: ProjectSnapshot | None = None
        self._snapshot_time = 0.0
        self._changes = self._snapshot_changes = 0  # counters of changes, and of those that the snapshot includes
        self._lock = asyncio.Lock()

    def start(self) -> None:
        background_tasks.create(self._poll_forever(), name="tidemill feed")

    async def read_snapshot(self) -> ProjectSnapshot:
        """The project's status: the same snapshot for all callers until something new happens."""
        async with self._lock:
            if (
                self._snapshot is None
                or self._snapshot_changes < self._changes
                or time.monotonic() - self._snapshot_time > MAX_SNAPSHOT_AGE
            ):
                # It may miss events that happen meanwhile, so it counts as older than those.
                self._snapshot_changes = self._changes
                self._snapshot = await run_off_loop(take_snapshot, self.catalog)
                self._snapshot_time = time.monotonic()
            return self._snapshot

    async def _poll_forever(self) -> None:
        while True:
            await self._poll_events()
            await asyncio.sleep(POLL_SECONDS)

    async def _poll_events(self) -> None:
        before = self.problem
        try:
            events = await run_off_loop(self._read_unseen)
            self.problem = ""
        except TidemillError as error:
            events, self.problem = [], summarize_error(error)
        except Exception as error:  # the feed must survive any error while there are viewers
            log.exception("the event feed failed")
            events, self.problem = [], summarize_error(error)
        if events or self.problem != before:
            self.events.extend(events)
            self._changes += 1
            self.changed.emit()

    def _read_unseen(self) -> list[Event]:
        if self._last is None:
            self._last = max(0, self.catalog.events.read_last_id() - MAX_EVENTS)
        events: list[Event] = []
        while page := self.catalog.events.list(after=self._last, limit=PAGE_SIZE):
            self._last = page[-1].id
            events += page
        return events
