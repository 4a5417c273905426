"""`ui.feed`: one poll tells everybody, and trouble with the catalog is told and forgotten."""

from __future__ import annotations

import asyncio

import pytest
from tests.catalog.driver import Driver

from tidemill.errors import CatalogError
from tidemill.ui.feed import CatalogFeed


class Watched(CatalogFeed):
    """Counts how often it told that something changed."""

    def __init__(self, driver: Driver) -> None:
        super().__init__(driver.catalog)
        self.told = 0
        self.changed.subscribe(self._count)

    def _count(self) -> None:
        self.told += 1

    def poll(self) -> None:
        asyncio.run(self._poll_events())


def test_only_news_is_told(driver: Driver) -> None:
    feed = Watched(driver)
    feed.poll()
    assert (feed.told, feed.events[-1].kind) == (1, "binding.applied")
    feed.poll()
    assert feed.told == 1
    driver.insert("a")
    feed.poll()
    assert (feed.told, feed.events[-1].kind) == (2, "channel.advanced")


def test_a_snapshot_is_taken_once_for_all_until_something_happens(driver: Driver) -> None:
    feed = Watched(driver)
    feed.poll()
    first = asyncio.run(feed.read_snapshot())
    assert asyncio.run(feed.read_snapshot()) is first
    driver.insert("a")
    feed.poll()
    assert asyncio.run(feed.read_snapshot()).count_unread("copy") == {"a": 1}


def test_a_snapshot_that_was_overtaken_is_taken_again(driver: Driver) -> None:
    feed = Watched(driver)
    feed.poll()

    async def overtaken() -> None:
        taking = asyncio.create_task(feed.read_snapshot())
        await asyncio.sleep(0)  # it is under way, and shows nothing of what comes now
        driver.insert("a")
        await feed._poll_events()
        await taking
        assert (await feed.read_snapshot()).count_unread("copy") == {"a": 1}

    asyncio.run(overtaken())


def test_trouble_is_told_once_and_passes(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    feed = Watched(driver)
    feed.poll()
    with monkeypatch.context() as patched:
        patched.setattr(driver.catalog, "list_events", _fails)
        feed.poll()
        feed.poll()
        assert (feed.told, feed.problem) == (2, "gone")
    feed.poll()
    assert (feed.told, feed.problem) == (3, "")


def _fails(**_: object) -> None:
    raise CatalogError("gone")
