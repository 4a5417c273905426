"""Subscriptions over real sockets: every block once, from an offset on, with filtered rows and columns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest
from tests.server.mill import OPTIONS, ServedProject, serve_project

from tidemill.client import Client
from tidemill.encoding.block_rows import CHUNK_ROWS
from tidemill.errors import BadInput, GarbageCollected, NotFound
from tidemill.server.http_server import HttpListener
from tidemill.wire.refusals import Unidentified
from tidemill.wire.subscribe_client import BlockRowsDocument


@pytest.fixture
def shop(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[ServedProject]:
    """Every connection ends after one poll, unless the test gives a duration."""
    with serve_project(tmp_path, options=replace(OPTIONS, stream_seconds=getattr(request, "param", 0.0))) as project:
        yield project


@pytest.fixture
def client(shop: ServedProject) -> Iterator[Client]:
    with (
        HttpListener(shop.app, shop.access, port=0) as listener,
        Client(listener.url, shop.tokens["owner"], sleep=lambda _: None) as client,
    ):
        yield client


def row(number: int, word: str = "w") -> dict[str, object]:
    return {"id": number, "word": word}


def read_ids(stream: Iterator[BlockRowsDocument], count: int) -> list[list[int]]:
    return [[r["id"] for r in block.rows] for block in islice(stream, count)]


@pytest.mark.parametrize("shop", [60.0, 0.0], indirect=True, ids=["one connection", "many connections"])
def test_each_block_is_received_when_it_becomes_visible(client: Client) -> None:
    client.insert("orders", [row(1), row(2)])
    blocks = client.subscribe("orders", after=0)
    assert read_ids(blocks, 1) == [[1, 2]]
    client.insert("orders", [row(3)])
    assert next(blocks) == BlockRowsDocument(block=2, kind="delta", updates="append", rows=[row(3)])


def test_a_subscription_starts_after_an_offset(client: Client) -> None:
    for number in range(5):
        client.insert("orders", [row(number)])
    assert read_ids(client.subscribe("orders", after=3), 2) == [[3], [4]]


def test_rows_and_columns_are_filtered(client: Client) -> None:
    client.insert("orders", [row(1, "a"), row(2, "b"), row(3, "b")])
    client.insert("orders", [row(4, "a")])
    blocks = client.subscribe("orders", after=0, columns=["id"], where=["word = b", "id > 2"])
    assert [block.rows for block in islice(blocks, 2)] == [[{"id": 3}], []]


def test_deletions_are_received_with_any_filter(client: Client) -> None:
    client.insert("stock", [row(1, "a"), row(2, "b")])
    client.insert("stock", [{"id": 1, "_deleted": True}])
    first, second = islice(client.subscribe("stock", after=0, columns=["id"], where=["word = b"]), 2)
    assert [r["id"] for r in first.rows] == [2]
    assert second.rows == [{"id": 1, "_deleted": True}]


def test_a_large_block_is_received_completely(client: Client) -> None:
    count = 2 * CHUNK_ROWS + 1
    client.insert("orders", [row(n) for n in range(count)])
    assert read_ids(client.subscribe("orders", after=0), 1) == [list(range(count))]


def test_a_base_is_marked_as_one(client: Client) -> None:
    client.insert("orders", [row(1)])
    client.insert("orders", [row(2)], kind="base")
    client.insert("orders", [row(3)])
    blocks = list(islice(client.subscribe("orders", after=0), 3))
    assert [(b.kind, [r["id"] for r in b.rows]) for b in blocks] == [("delta", [1]), ("base", [2]), ("delta", [3])]


def test_garbage_collected_blocks_are_an_error(client: Client, shop: ServedProject) -> None:
    for number in range(3):
        client.insert("orders", [row(number)])
    shop.mill.catalog.blocks.collect([b.id for b in shop.mill.catalog.blocks.list("orders") if b.seq == 2])
    blocks = client.subscribe("orders", after=0)
    assert read_ids(blocks, 1) == [[0]]
    with pytest.raises(
        GarbageCollected, match="after 1 were garbage-collected; read its content, and subscribe from 3 on"
    ):
        next(blocks)


def test_a_subscription_after_a_block_that_does_not_exist_is_rejected(client: Client) -> None:
    client.insert("orders", [row(1)])
    expected = "channel 'orders' ends at block 1, so no block follows 2; subscribe after 1 or an earlier block"
    with pytest.raises(BadInput, match=expected):
        next(client.subscribe("orders", after=2))
    blocks = client.subscribe("orders", after=1)
    client.insert("orders", [row(2)])
    assert read_ids(blocks, 1) == [[2]]


def test_a_stream_of_events_after_one_that_does_not_exist_is_rejected(client: Client) -> None:
    last = client.past_events(limit=1)[-1].id
    with pytest.raises(BadInput, match=f"the last event is {last}, so none follows {last + 1}; stream after {last}"):
        next(client.events(after=last + 1))


def test_invalid_subscriptions_are_rejected(client: Client, shop: ServedProject) -> None:
    with pytest.raises(NotFound):
        next(client.subscribe("nowhere"))
    with pytest.raises(BadInput, match="no column 'price'; it has id, word"):
        next(client.subscribe("orders", columns=["price"]))
    with pytest.raises(BadInput, match="is not a condition"):
        next(client.subscribe("orders", where=["word"]))
    client.insert("orders", [row(1)])
    with pytest.raises(BadInput, match="cannot be compared with 'x'"):
        next(client.subscribe("orders", after=0, where=["id > x"]))


def test_a_subscription_needs_a_token(client: Client, shop: ServedProject) -> None:
    with HttpListener(shop.app, shop.access, port=0) as listener:
        with Client(listener.url) as stranger, pytest.raises(Unidentified):
            next(stranger.subscribe("orders"))
        client.insert("orders", [row(1)])
        with Client(listener.url, shop.tokens["viewer"]) as viewer:
            assert read_ids(viewer.subscribe("orders", after=0), 1) == [[1]]
