"""A bulk-loaded history is equivalent to one of single inserts."""

from __future__ import annotations

from itertools import pairwise

import pytest
from benchmarks.bulk_load import append_history
from tests.catalog.driver import Driver

from tidemill.model.block import ChannelPosition, link_block


def test_a_bulk_loaded_history_can_be_read_and_continued(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.bulk_load._BATCH_SIZE", 3)
    driver.insert()
    append_history(driver.catalog, "a", 7)
    last = driver.insert()
    blocks = driver.catalog.blocks.read_base_and_deltas("a", 100)
    assert [b.seq for b in blocks] == list(range(10))
    for before, after in pairwise(blocks):
        assert (
            link_block(ChannelPosition(before.seq, before.channel_provenance, before.content_identity), after) == after
        )
    assert blocks[-1] == last
    channel = driver.catalog.channels.read("a")
    assert (channel.blocks, channel.rows, channel.reserved) == (10, 2 + 7 + 2, 0)
