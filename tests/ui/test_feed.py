"""`ui.feed`: one poll notifies all pages, and catalog errors are shown until they pass."""

from __future__ import annotations

import asyncio

import pytest
from tests.catalog.driver import Driver

from tidemill.errors import CatalogError
from tidemill.ui.feed import CatalogFeed


class CountingFeed(CatalogFeed):
    """Counts its change notifications."""

    def __init__(self, driver: Driver) -> None:
        super().__init__(driver.catalog)
        self.notifications = 0
        self.changed.subscribe(self._count)

    def _count(self) -> None:
        self.notifications += 1

    def poll(self) -> None:
        asyncio.run(self._poll_events())


def test_only_new_events_cause_a_notification(driver: Driver) -> None:
    feed = CountingFeed(driver)
    feed.poll()
    assert (feed.notifications, feed.events[-1].kind) == (1, "binding.applied")
    feed.poll()
    assert feed.notifications == 1
    driver.insert("a")
    feed.poll()
    assert (feed.notifications, feed.events[-1].kind) == (2, "channel.advanced")


def test_a_snapshot_is_shared_until_an_event_happens(driver: Driver) -> None:
    feed = CountingFeed(driver)
    feed.poll()
    first = asyncio.run(feed.read_snapshot())
    assert asyncio.run(feed.read_snapshot()) is first
    driver.insert("a")
    feed.poll()
    assert asyncio.run(feed.read_snapshot()).unread_index["copy"] == {"a": 1}


def test_an_outdated_snapshot_is_taken_again(driver: Driver) -> None:
    feed = CountingFeed(driver)
    feed.poll()

    async def insert_meanwhile() -> None:
        reading = asyncio.create_task(feed.read_snapshot())
        await asyncio.sleep(0)  # the snapshot is being read, and does not contain the insert that follows
        driver.insert("a")
        await feed._poll_events()
        await reading
        assert (await feed.read_snapshot()).unread_index["copy"] == {"a": 1}

    asyncio.run(insert_meanwhile())


def test_a_catalog_error_is_shown_once_and_passes(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    feed = CountingFeed(driver)
    feed.poll()
    with monkeypatch.context() as patch:
        patch.setattr(driver.catalog.events, "list", _fail)
        feed.poll()
        feed.poll()
        assert (feed.notifications, feed.problem) == (2, "gone")
    feed.poll()
    assert (feed.notifications, feed.problem) == (3, "")


def _fail(**_: object) -> None:
    raise CatalogError("gone")
