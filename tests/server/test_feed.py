"""The listeners of a feed share its polls; each receives every event after its offset, in order, once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from tidemill.errors import CatalogError
from tidemill.ports.records import Event
from tidemill.server import feed as feed_module
from tidemill.server.feed import EventFeed


class EventLog:
    """Events, and the number of times that they were read."""

    def __init__(self) -> None:
        self.last = 0
        self.reads = 0
        self.fails = False

    def read(self, after: int) -> list[Event]:
        self.reads += 1
        if self.fails:
            self.fails = False
            raise CatalogError("briefly unreachable")
        return [Event(n, float(n), "run.finished", "t", None, {}) for n in range(after + 1, self.last + 1)][
            : feed_module.PAGE_SIZE
        ]


def parse_ids(message: bytes) -> list[int]:
    return [int(line[3:]) for line in message.decode().splitlines() if line.startswith("id:")]


async def collect_ids(feed: EventFeed, at: int, upto: int) -> list[int]:
    ids: list[int] = []
    stream: AsyncIterator[bytes] = feed.stream_events(at, lambda: bool(ids) and ids[-1] >= upto)
    async for message in stream:
        ids += parse_ids(message)
    return ids


def test_every_listener_receives_every_event_once_and_shares_reads() -> None:
    log = EventLog()
    log.last = 3

    async def listen() -> list[list[int]]:
        feed = EventFeed(log.read, 0.01)
        listeners = [asyncio.create_task(collect_ids(feed, at, 40)) for at in [0, 1, 3] * 10]
        for n in range(4, 41):
            log.last = n
            await asyncio.sleep(0.002)
        return list(await asyncio.gather(*listeners))

    for at, ids in zip([0, 1, 3] * 10, asyncio.run(listen()), strict=True):
        assert ids == list(range(at + 1, 41))
    assert log.reads < 30 + 100  # one for each listener at the start, then one for all


def test_a_listener_that_is_far_behind_reads_from_the_catalog(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed_module, "PAGE_SIZE", 5)
    monkeypatch.setattr(feed_module, "_BUFFER_SIZE", 10)
    log = EventLog()
    log.last = 100

    async def listen() -> list[list[int]]:
        feed = EventFeed(log.read, 0.001)
        return list(await asyncio.gather(collect_ids(feed, 100, 103), collect_ids(feed, 0, 103), _grow(log, 103)))[:2]

    near, far = asyncio.run(listen())
    assert near == [101, 102, 103]
    assert far == list(range(1, 104))


async def _grow(log: EventLog, last: int) -> list[int]:
    while log.last < last:
        await asyncio.sleep(0.005)
        log.last += 1
    return []


def test_a_failed_read_is_retried() -> None:
    log = EventLog()

    async def listen() -> list[int]:
        feed = EventFeed(log.read, 0.001)
        listener = asyncio.create_task(collect_ids(feed, 0, 2))
        await asyncio.sleep(0.01)
        log.fails = True
        await asyncio.sleep(0.02)
        log.last = 2
        return await listener

    assert asyncio.run(listen()) == [1, 2]
