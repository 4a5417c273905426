"""One look for all who listen: everybody hears everything after where they were, in its order, once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from tidemill.errors import CatalogError
from tidemill.ports.records import Event
from tidemill.server import feed as feeding
from tidemill.server.feed import EventFeed


class Book:
    """Events, and how often somebody looked at them."""

    def __init__(self) -> None:
        self.last = 0
        self.looks = 0
        self.fails = False

    def read(self, after: int) -> list[Event]:
        self.looks += 1
        if self.fails:
            self.fails = False
            raise CatalogError("gone for a moment")
        return [Event(n, float(n), "run.finished", "t", None, {}) for n in range(after + 1, self.last + 1)][
            : feeding.PAGE_SIZE
        ]


def numbers(told: bytes) -> list[int]:
    return [int(line[3:]) for line in told.decode().splitlines() if line.startswith("id:")]


async def heard(feed: EventFeed, at: int, upto: int) -> list[int]:
    found: list[int] = []
    stream: AsyncIterator[bytes] = feed.stream_events(at, lambda: bool(found) and found[-1] >= upto)
    async for told in stream:
        found += numbers(told)
    return found


def test_everybody_hears_everything_once_and_looks_are_shared() -> None:
    book = Book()
    book.last = 3

    async def listen() -> list[list[int]]:
        feed = EventFeed(book.read, 0.01)
        listeners = [asyncio.create_task(heard(feed, at, 40)) for at in [0, 1, 3] * 10]
        for n in range(4, 41):
            book.last = n
            await asyncio.sleep(0.002)
        return list(await asyncio.gather(*listeners))

    for at, found in zip([0, 1, 3] * 10, asyncio.run(listen()), strict=True):
        assert found == list(range(at + 1, 41))
    assert book.looks < 30 + 100  # one each to begin with, then one for all


def test_who_is_far_behind_is_read_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeding, "PAGE_SIZE", 5)
    monkeypatch.setattr(feeding, "_BUFFER_SIZE", 10)
    book = Book()
    book.last = 100

    async def listen() -> list[list[int]]:
        feed = EventFeed(book.read, 0.001)
        return list(await asyncio.gather(heard(feed, 100, 103), heard(feed, 0, 103), _grow(book, 103)))[:2]

    near, far = asyncio.run(listen())
    assert near == [101, 102, 103]
    assert far == list(range(1, 104))


async def _grow(book: Book, last: int) -> list[int]:
    while book.last < last:
        await asyncio.sleep(0.005)
        book.last += 1
    return []


def test_a_look_that_fails_is_tried_again() -> None:
    book = Book()

    async def listen() -> list[int]:
        feed = EventFeed(book.read, 0.001)
        listening = asyncio.create_task(heard(feed, 0, 2))
        await asyncio.sleep(0.01)
        book.fails = True
        await asyncio.sleep(0.02)
        book.last = 2
        return await listening

    assert asyncio.run(listen()) == [1, 2]
