"""Views of channels: the same whatever was asked before, and nothing is asked twice."""

from __future__ import annotations

from itertools import permutations

import pytest
from tests.catalog.driven import driver
from tests.catalog.driver import Driver

from tidemill.model.block import BlockKind
from tidemill.model.view import View
from tidemill.runtime.runs.views import ChannelViews

__all__ = ["driver"]


def asked(views: ChannelViews, what: str) -> View:
    match what:
        case "all":
            return views.build_snapshot("a", 6)
        case "old":
            return views.build_snapshot("a", 4)
        case _:
            return views.build_change("a", 4, 6)


@pytest.mark.parametrize("compacted", [None, 3, 5])
def test_what_was_asked_before_changes_no_answer(driver: Driver, compacted: int | None) -> None:
    for _ in range(6):
        driver.insert("a")
    if compacted is not None:
        driver.compact("a", compacted)
    driver.fold("a", 4, 6)
    alone = {what: asked(ChannelViews(driver.catalog, {}), what) for what in ("all", "old", "new")}
    for order in permutations(alone):
        shared = ChannelViews(driver.catalog, {})
        assert {what: asked(shared, what) for what in order} == alone


def test_a_replaced_content_is_a_difference_whatever_was_asked_before(driver: Driver) -> None:
    for kind in (BlockKind.DELTA, BlockKind.DELTA, BlockKind.DELTA, BlockKind.DELTA, BlockKind.BASE, BlockKind.DELTA):
        driver.insert("a", kind=kind)
    shared = ChannelViews(driver.catalog, {})
    shared.build_snapshot("a", 6)
    assert asked(shared, "new") == asked(ChannelViews(driver.catalog, {}), "new")


def test_a_content_holds_what_was_and_what_changed(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(6):
        driver.insert("a")
    driver.compact("a", 4)
    views = ChannelViews(driver.catalog, {})
    asked(views, "all")
    for name in ("read_base_and_deltas", "list_deltas", "read_channel"):
        monkeypatch.setattr(driver.catalog, name, None)
    assert asked(views, "old").base.seq == 4
    assert [d.seq for d in asked(views, "new").deltas] == [5, 6]
