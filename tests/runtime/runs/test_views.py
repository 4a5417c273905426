"""Views of channels do not depend on earlier requests, and no query is repeated."""

from __future__ import annotations

from itertools import permutations

import pytest
from tests.catalog.driver import Driver
from tests.catalog.driver_fixture import driver

from tidemill.model.block import BlockKind
from tidemill.model.view import View
from tidemill.runtime.runs.views import ChannelViews

__all__ = ["driver"]


def build_view(views: ChannelViews, kind: str) -> View:
    match kind:
        case "all":
            return views.build_snapshot("a", 6)
        case "old":
            return views.build_snapshot("a", 4)
        case _:
            return views.build_change("a", 4, 6)


@pytest.mark.parametrize("compacted", [None, 3, 5])
def test_earlier_requests_change_no_view(driver: Driver, compacted: int | None) -> None:
    for _ in range(6):
        driver.insert("a")
    if compacted is not None:
        driver.compact("a", compacted)
    driver.compact_minor("a", 4, 6)
    separate = {kind: build_view(ChannelViews(driver.catalog, {}), kind) for kind in ("all", "old", "new")}
    for order in permutations(separate):
        shared = ChannelViews(driver.catalog, {})
        assert {kind: build_view(shared, kind) for kind in order} == separate


def test_a_change_across_a_base_does_not_depend_on_earlier_requests(driver: Driver) -> None:
    for kind in (BlockKind.DELTA, BlockKind.DELTA, BlockKind.DELTA, BlockKind.DELTA, BlockKind.BASE, BlockKind.DELTA):
        driver.insert("a", kind=kind)
    shared = ChannelViews(driver.catalog, {})
    shared.build_snapshot("a", 6)
    assert build_view(shared, "new") == build_view(ChannelViews(driver.catalog, {}), "new")


def test_a_snapshot_also_answers_for_old_and_new_content(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(6):
        driver.insert("a")
    driver.compact("a", 4)
    views = ChannelViews(driver.catalog, {})
    build_view(views, "all")
    for name in ("read_base_and_deltas", "list_deltas"):
        monkeypatch.setattr(driver.catalog.blocks, name, None)
    monkeypatch.setattr(driver.catalog.channels, "read", None)
    assert build_view(views, "old").base.seq == 4
    assert [d.seq for d in build_view(views, "new").deltas] == [5, 6]
