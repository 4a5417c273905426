"""Following channels over real sockets: every block once, from where one was, and only what one wants."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest
from tests.server.mill import OPTIONS, Served, served

from tidemill.client import Client
from tidemill.encoding.block_rows import CHUNK_ROWS
from tidemill.errors import BadInput, GarbageCollected, NotFound
from tidemill.server.http_server import HttpListener
from tidemill.wire.refusals import Unidentified
from tidemill.wire.subscribe_client import BlockRowsDocument


@pytest.fixture
def shop(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Served]:
    """Every connection ends after one look, unless the test says how long they last."""
    with served(tmp_path, options=replace(OPTIONS, stream_seconds=getattr(request, "param", 0.0))) as found:
        yield found


@pytest.fixture
def client(shop: Served) -> Iterator[Client]:
    with (
        HttpListener(shop.app, shop.access, port=0) as at,
        Client(at.url, shop.tokens["owner"], sleep=lambda _: None) as found,
    ):
        yield found


def row(number: int, word: str = "w") -> dict[str, object]:
    return {"id": number, "word": word}


def ids(found: Iterator[BlockRowsDocument], blocks: int) -> list[list[int]]:
    return [[r["id"] for r in block.rows] for block in islice(found, blocks)]


@pytest.mark.parametrize("shop", [60.0, 0.0], indirect=True, ids=["one connection", "many connections"])
def test_each_block_as_it_comes(client: Client) -> None:
    client.insert("orders", [row(1), row(2)])
    found = client.subscribe("orders", after=0)
    assert ids(found, 1) == [[1, 2]]
    client.insert("orders", [row(3)])
    assert next(found) == BlockRowsDocument(block=2, kind="delta", updates="append", rows=[row(3)])


def test_from_where_one_was(client: Client) -> None:
    for number in range(5):
        client.insert("orders", [row(number)])
    assert ids(client.subscribe("orders", after=3), 2) == [[3], [4]]


def test_only_what_one_wants(client: Client) -> None:
    client.insert("orders", [row(1, "a"), row(2, "b"), row(3, "b")])
    client.insert("orders", [row(4, "a")])
    found = client.subscribe("orders", after=0, columns=["id"], where=["word = b", "id > 2"])
    assert [block.rows for block in islice(found, 2)] == [[{"id": 3}], []]


def test_deletions_are_told_whatever_is_wanted(client: Client) -> None:
    client.insert("stock", [row(1, "a"), row(2, "b")])
    client.insert("stock", [{"id": 1, "_deleted": True}])
    first, second = islice(client.subscribe("stock", after=0, columns=["id"], where=["word = b"]), 2)
    assert [r["id"] for r in first.rows] == [2]
    assert second.rows == [{"id": 1, "_deleted": True}]


def test_a_large_block_comes_whole(client: Client) -> None:
    count = 2 * CHUNK_ROWS + 1
    client.insert("orders", [row(n) for n in range(count)])
    assert ids(client.subscribe("orders", after=0), 1) == [list(range(count))]


def test_a_whole_content_says_that_it_is_one(client: Client) -> None:
    client.insert("orders", [row(1)])
    client.insert("orders", [row(2)], kind="base")
    client.insert("orders", [row(3)])
    found = list(islice(client.subscribe("orders", after=0), 3))
    assert [(b.kind, [r["id"] for r in b.rows]) for b in found] == [("delta", [1]), ("base", [2]), ("delta", [3])]


def test_what_was_collected_is_not_passed_over_in_silence(client: Client, shop: Served) -> None:
    for number in range(3):
        client.insert("orders", [row(number)])
    shop.mill.catalog.collect_blocks([b.id for b in shop.mill.catalog.list_blocks("orders") if b.seq == 2])
    found = client.subscribe("orders", after=0)
    assert ids(found, 1) == [[0]]
    with pytest.raises(
        GarbageCollected, match="after 1 were garbage-collected; read its content, and subscribe from 3 on"
    ):
        next(found)


def test_what_cannot_be_followed(client: Client, shop: Served) -> None:
    with pytest.raises(NotFound):
        next(client.subscribe("nowhere"))
    with pytest.raises(BadInput, match="no column 'price'; it has id, word"):
        next(client.subscribe("orders", columns=["price"]))
    with pytest.raises(BadInput, match="is not a condition"):
        next(client.subscribe("orders", where=["word"]))
    client.insert("orders", [row(1)])
    with pytest.raises(BadInput, match="cannot be compared with 'x'"):
        next(client.subscribe("orders", after=0, where=["id > x"]))


def test_who_may_follow(client: Client, shop: Served) -> None:
    with HttpListener(shop.app, shop.access, port=0) as at:
        with Client(at.url) as nobody, pytest.raises(Unidentified):
            next(nobody.subscribe("orders"))
        client.insert("orders", [row(1)])
        with Client(at.url, shop.tokens["viewer"]) as viewer:
            assert ids(viewer.subscribe("orders", after=0), 1) == [[1]]
