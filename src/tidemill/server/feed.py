"""What happens, read once and told to all who listen."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from itertools import takewhile

from fastapi.sse import KEEPALIVE_COMMENT, format_sse_event
from starlette.concurrency import run_in_threadpool

from tidemill.app import serialization
from tidemill.errors import TidemillError
from tidemill.ports.records import Event

log = logging.getLogger("tidemill.server")

PAGE = 500
"""Events that are read at a time."""
_KEPT = 4 * PAGE  # for those who listen slowly; for who is slower still it is read again
_SILENCE = 15.0  # seconds after which listeners are told that the connection still stands

Told = tuple[int, bytes]
"""An event's number, and the event as it is sent."""


class EventFeed:
    """Looks for events every `look` seconds while anybody listens. Lives in one event loop."""

    def __init__(self, read: Callable[[int], list[Event]], look: float) -> None:
        """`read` gives a page of the events after a number."""
        self._read = read
        self._look = look
        self._listeners = 0
        self._looking: asyncio.Task[None] | None = None
        self._since = 0  # all events after this one, as far as was looked, are kept
        self._kept: deque[Told] = deque()
        self._looked = asyncio.Event()  # after each look it is set, and another takes its place

    async def stream_events(self, at: int, over: Callable[[], bool]) -> AsyncIterator[bytes]:
        """The events after `at`: those that there are, and then those that happen, until it is over."""
        with self._register_listener(at):
            found = await self._read_page(at)
            said = time.monotonic()
            while True:
                if found:
                    at, said = found[-1][0], time.monotonic()
                    yield b"".join(sent for _, sent in found)
                elif time.monotonic() - said >= _SILENCE:
                    said = time.monotonic()
                    yield KEEPALIVE_COMMENT
                if over():
                    return
                if not found:
                    await self._looked.wait()
                found = self._select_after(at) if at >= self._since else await self._read_page(at)

    def _select_after(self, at: int) -> list[Told]:
        newest_first = takewhile(lambda told: told[0] > at, reversed(self._kept))
        return list(newest_first)[::-1]

    async def _read_page(self, at: int) -> list[Told]:
        """Read for one listener alone."""
        return [_encode_event(event) for event in await run_in_threadpool(self._read, at)]

    @contextmanager
    def _register_listener(self, at: int) -> Iterator[None]:
        self._listeners += 1
        if self._looking is None:
            self._kept.clear()
            self._since = at
            self._looking = asyncio.create_task(self._poll_events())
        try:
            yield
        finally:
            self._listeners -= 1

    async def _poll_events(self) -> None:
        try:
            while self._listeners:
                found = await self._read_new()
                self._keep_events(found)
                self._looked.set()
                self._looked = asyncio.Event()
                if len(found) < PAGE:
                    await asyncio.sleep(self._look)
        finally:
            self._looking = None

    async def _read_new(self) -> list[Event]:
        try:
            return await run_in_threadpool(self._read, self._kept[-1][0] if self._kept else self._since)
        except TidemillError as error:
            log.error("events cannot be read; trying again: %s", error)
            return []

    def _keep_events(self, found: list[Event]) -> None:
        self._kept.extend(_encode_event(event) for event in found)
        while len(self._kept) > _KEPT:
            self._since, _ = self._kept.popleft()


def _encode_event(event: Event) -> Told:
    text = json.dumps(serialization.serialize_event(event), separators=(",", ":"))
    return event.id, format_sse_event(data_str=text, event=event.kind, id=str(event.id))
