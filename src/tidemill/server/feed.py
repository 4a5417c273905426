"""A feed of events, read once and sent to all listeners."""

import asyncio
import logging
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from itertools import takewhile

from fastapi.sse import KEEPALIVE_COMMENT, format_sse_event
from starlette.concurrency import run_in_threadpool

from tidemill.errors import TidemillError
from tidemill.ports.records import Event
from tidemill.wire.schemas import EventDocument

log = logging.getLogger("tidemill.server")

PAGE_SIZE = 500
"""Events that are read at a time."""
_BUFFER_SIZE = 4 * PAGE_SIZE  # for slow listeners; even slower ones read from the catalog again
_KEEPALIVE_SECONDS = 15.0  # seconds of silence after which listeners receive a keep-alive

EncodedEvent = tuple[int, bytes]
"""An event's number, and the encoded event."""


class EventFeed:
    """Polls for events every `poll_interval` seconds while there are listeners. Used in one event loop."""

    def __init__(self, read_page: Callable[[int], list[Event]], poll_interval: float) -> None:
        """`read_page` returns a page of the events after a number."""
        self._read = read_page
        self._poll_interval = poll_interval
        self._listeners = 0
        self._poll_task: asyncio.Task[None] | None = None
        self._since = 0  # all events after this number, up to the last poll, are buffered
        self._buffer: deque[EncodedEvent] = deque()
        self._polled = asyncio.Event()  # set after each poll, and then replaced by a new event

    async def stream_events(self, after: int, is_over: Callable[[], bool]) -> AsyncIterator[bytes]:
        """The events after `after`: the existing ones, and then new ones, until `is_over` returns True."""
        with self._register_listener(after):
            messages = await self._read_page(after)
            last_sent = time.monotonic()
            while True:
                if messages:
                    after, last_sent = messages[-1][0], time.monotonic()
                    yield b"".join(payload for _, payload in messages)
                elif time.monotonic() - last_sent >= _KEEPALIVE_SECONDS:
                    last_sent = time.monotonic()
                    yield KEEPALIVE_COMMENT
                if is_over():
                    return
                if not messages:
                    await self._polled.wait()
                messages = self._select_after(after) if after >= self._since else await self._read_page(after)

    def _select_after(self, after: int) -> list[EncodedEvent]:
        newest_first = takewhile(lambda message: message[0] > after, reversed(self._buffer))
        return list(newest_first)[::-1]

    async def _read_page(self, after: int) -> list[EncodedEvent]:
        return [_encode_event(event) for event in await run_in_threadpool(self._read, after)]

    @contextmanager
    def _register_listener(self, after: int) -> Iterator[None]:
        self._listeners += 1
        if self._poll_task is None:
            self._buffer.clear()
            self._since = after
            self._poll_task = asyncio.create_task(self._poll_events())
        try:
            yield
        finally:
            self._listeners -= 1

    async def _poll_events(self) -> None:
        try:
            while self._listeners:
                events = await self._read_new()
                self._keep_events(events)
                self._polled.set()
                self._polled = asyncio.Event()
                if len(events) < PAGE_SIZE:
                    await asyncio.sleep(self._poll_interval)
        finally:
            self._poll_task = None

    async def _read_new(self) -> list[Event]:
        try:
            return await run_in_threadpool(self._read, self._buffer[-1][0] if self._buffer else self._since)
        except TidemillError as error:
            log.error("events cannot be read; retrying: %s", error)
            return []

    def _keep_events(self, events: list[Event]) -> None:
        self._buffer.extend(_encode_event(event) for event in events)
        while len(self._buffer) > _BUFFER_SIZE:
            self._since, _ = self._buffer.popleft()


def _encode_event(event: Event) -> EncodedEvent:
    text = EventDocument.model_validate(event).model_dump_json()
    return event.id, format_sse_event(data_str=text, event=event.kind, id=str(event.id))
