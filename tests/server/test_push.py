"""Pushing over real sockets: numbers, acknowledgements, resends, rejections, limits and permissions."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import replace

import httpx
import pytest
from tests.server.mill import OPTIONS, ServedProject, serve_project
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from tidemill.client import Client
from tidemill.errors import BadInput, NotFound
from tidemill.runtime.runs.insert_batcher import InsertAnswer, InsertBatcher, InsertRequest
from tidemill.server.http_server import HttpListener
from tidemill.wire.client_sockets import format_address
from tidemill.wire.refusals import Forbidden, Invalid, Unidentified

LONG_LIVED = replace(OPTIONS, stream_seconds=60.0, max_wait=0.02)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedProject]:
    with serve_project(tmp_path_factory.mktemp("shop"), options=LONG_LIVED) as project:
        yield project


@pytest.fixture(scope="module")
def url(shop: ServedProject) -> Iterator[str]:
    with HttpListener(shop.app, shop.access, port=0) as listener:
        yield listener.url


@pytest.fixture
def client(shop: ServedProject, url: str) -> Iterator[Client]:
    with Client(url, shop.tokens["owner"], sleep=lambda _: None) as client:
        yield client


def open_socket(shop: ServedProject, url: str, producer: str, channel: str = "orders") -> ClientConnection:
    headers = {"Authorization": f"Bearer {shop.tokens['owner']}"}
    return connect(format_address(url, "channels", channel, "push", producer=producer), additional_headers=headers)


def format_event(number: int, word: str) -> str:
    return f"{number}\n" + json.dumps({"id": number, "word": word})


def receive(connection: ClientConnection) -> dict[str, object]:
    return dict(json.loads(connection.recv(timeout=30)))


def wait_for_acknowledgement(connection: ClientConnection, number: int) -> None:
    while receive(connection)["acknowledged"] != number:
        pass


def read_ids(shop: ServedProject, word: str, channel: str = "orders") -> list[int]:
    """The ids of the channel's current rows with this word."""
    return sorted(row["id"] for row in shop.mill.rows(channel) if row["word"] == word)


def test_acknowledged_messages_are_visible_and_resends_are_ignored(shop: ServedProject, url: str) -> None:
    with open_socket(shop, url, "till") as first:
        assert receive(first) == {"producer": "till", "last": 0}
        first.send(format_event(1, "ack"))
        first.send(format_event(2, "ack") + "\n" + json.dumps({"id": 20, "word": "ack"}))
        wait_for_acknowledgement(first, 2)
        assert read_ids(shop, "ack") == [1, 2, 20]
    with open_socket(shop, url, "till") as again:
        assert receive(again) == {"producer": "till", "last": 2}
        for number in (1, 2, 3):
            again.send(format_event(number, "ack"))
        wait_for_acknowledgement(again, 3)
    assert read_ids(shop, "ack") == [1, 2, 3, 20]


def test_two_sockets_of_one_producer_insert_once(shop: ServedProject, url: str) -> None:
    with open_socket(shop, url, "twin") as old, open_socket(shop, url, "twin") as new:
        receive(old), receive(new)
        for number in range(1, 40):
            old.send(format_event(number, "twin"))
            new.send(format_event(number, "twin"))
        wait_for_acknowledgement(old, 39)
        wait_for_acknowledgement(new, 39)
    assert read_ids(shop, "twin") == list(range(1, 40))


def test_small_messages_share_blocks(shop: ServedProject, url: str) -> None:
    before = shop.mill.catalog.channels.read("orders").head.seq
    with open_socket(shop, url, "many") as many:
        receive(many)
        for number in range(1, 501):
            many.send(format_event(number, "many"))
        wait_for_acknowledgement(many, 500)
    assert read_ids(shop, "many") == list(range(1, 501))
    assert shop.mill.catalog.channels.read("orders").head.seq - before < 50


def test_a_rejected_message_has_a_reason_and_ends_the_stream(shop: ServedProject, url: str) -> None:
    with open_socket(shop, url, "bad") as bad:
        receive(bad)
        bad.send(format_event(1, "bad"))
        bad.send('2\n{"id": "x", "word": "bad"}')
        bad.send(format_event(3, "bad"))
        answer = receive(bad)
        if "acknowledged" in answer:
            assert answer == {"acknowledged": 1}
            answer = receive(bad)
        assert answer["number"] == 2
        assert str(answer["error"]["message"]).startswith("message 2: row 1, column 'id'")
        with pytest.raises(ConnectionClosed):
            bad.recv(timeout=30)
    with open_socket(shop, url, "bad") as after:
        assert receive(after)["last"] == 1
        after.send("2\n")  # an empty message replaces the rejected one
        after.send(format_event(3, "bad"))
        wait_for_acknowledgement(after, 3)
    assert read_ids(shop, "bad") == [1, 3]


@pytest.mark.parametrize(
    ("sent", "message"),
    [
        (format_event(2, "gap"), "message 2 arrived, but 1 was expected"),
        ('{"id": 1}', "begins with its number on a separate line"),
        ("9" * 30 + "\n", "begins with its number"),
    ],
)
def test_messages_out_of_order_or_without_a_number_are_rejected(
    shop: ServedProject, url: str, sent: str, message: str
) -> None:
    with open_socket(shop, url, "gap") as gap:
        receive(gap)
        gap.send(sent)
        assert message in receive(gap)["error"]["message"]
    assert read_ids(shop, "gap") == []


def test_a_message_that_is_too_large_closes_the_socket(shop: ServedProject, url: str) -> None:
    with open_socket(shop, url, "large") as large:
        receive(large)
        with pytest.raises(ConnectionClosed, match="1009"):
            large.send(format_event(1, "x" * LONG_LIVED.max_message_bytes))
            large.recv(timeout=30)


def test_only_the_owner_may_push(shop: ServedProject, url: str) -> None:
    rejected = {None: Unidentified, "viewer": Forbidden, "operator": Forbidden}
    for who, error in rejected.items():
        with Client(url, who and shop.tokens[who]) as client, pytest.raises(error):
            client.push("orders", [{"id": 1, "word": "no"}])
    assert read_ids(shop, "no") == []


@pytest.mark.parametrize("name", ["../orders", "orders\x00", "x" * 1000, "orders'; DROP TABLE channels; --"])
@pytest.mark.parametrize("route", ["push", "subscribe"])
def test_sockets_for_hostile_names_are_rejected(shop: ServedProject, url: str, name: str, route: str) -> None:
    headers = {"Authorization": f"Bearer {shop.tokens['owner']}"}
    with pytest.raises(InvalidStatus) as rejected:
        connect(format_address(url, "channels", name, route, producer="p"), additional_headers=headers)
    assert rejected.value.response.status_code in (403, 404, 422)


def test_a_page_of_another_site_cannot_open_a_socket(shop: ServedProject, url: str) -> None:
    with pytest.raises(InvalidStatus) as rejected:
        connect(format_address(url, "channels", "orders", "subscribe"), origin="http://evil.example")
    assert rejected.value.response.status_code == 403
    assert "a page of another site" in rejected.value.response.body.decode()


def test_a_server_that_stops_closes_its_sockets(tmp_path_factory: pytest.TempPathFactory) -> None:
    with serve_project(tmp_path_factory.mktemp("ending"), options=LONG_LIVED) as shop, ExitStack() as stack:
        with HttpListener(shop.app, shop.access, port=0) as listener:
            connection = stack.enter_context(open_socket(shop, listener.url, "p"))
            receive(connection)
            connection.send(format_event(1, "end"))
            wait_for_acknowledgement(connection, 1)
        with pytest.raises(ConnectionClosed):
            connection.recv(timeout=30)


def test_invalid_channels_and_producers_are_rejected(client: Client) -> None:
    with pytest.raises(NotFound, match="nowhere"):
        client.push("nowhere", [{"id": 1}])
    with pytest.raises(BadInput, match="words is derived"):
        client.push("words", [{"word": "a"}])
    with pytest.raises(Invalid, match="producer"):
        client.push("orders", [], producer="a b")


def test_a_push_is_audited(shop: ServedProject, client: Client) -> None:
    client.push("orders", [{"id": 1, "word": "audit"}])
    newest = shop.access.accounts.list_audit_entries()[0]
    assert (newest.user, newest.action, newest.outcome) == ("owner", "SOCKET /api/v1/channels/orders/push", 101)


def test_the_client_continues_after_the_last_acknowledged_message(shop: ServedProject, client: Client) -> None:
    assert client.push("orders", ({"id": n, "word": "client"} for n in range(1, 2501)), producer="c") == 2500
    assert client.push("orders", [{"id": 1, "word": "client"}], producer="c", first=1) == 2500
    assert client.push("orders", [b'{"id": 2501, "word": "client"}'], producer="c") == 2501
    assert read_ids(shop, "client") == list(range(1, 2502))


def test_the_client_names_the_rejected_message(shop: ServedProject, client: Client) -> None:
    rows = [{"id": 1, "word": "reject"}, {"id": "x", "word": "reject"}, {"id": 3, "word": "reject"}]
    with pytest.raises(BadInput, match="message 2: row 1, column 'id'"):
        client.push("orders", rows)
    assert read_ids(shop, "reject") == [1]


def test_upserts_are_applied_in_the_order_of_their_producer(shop: ServedProject, client: Client) -> None:
    client.push("stock", ({"id": n % 3, "word": f"w{n}"} for n in range(30)))
    assert {row["id"]: row["word"] for row in shop.mill.rows("stock")} == {0: "w27", 1: "w28", 2: "w29"}


def test_a_fast_producer_is_slowed_by_back_pressure(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While no block can be written, the server accepts no more than the unacknowledged limit; no message is lost."""
    narrow = replace(LONG_LIVED, max_unacknowledged_bytes=20_000, max_message_bytes=10_000, max_wait=0.0)
    proceed, batch_bytes = threading.Event(), list[int]()
    real = InsertBatcher.insert_all

    def block_inserts(self: InsertBatcher, requests: Sequence[InsertRequest]) -> list[InsertAnswer]:
        batch_bytes.append(sum(len(request.data) for request in requests))
        proceed.wait(60)
        return real(self, requests)

    monkeypatch.setattr(InsertBatcher, "insert_all", block_inserts)
    with serve_project(tmp_path_factory.mktemp("narrow"), options=narrow) as shop:
        with (
            HttpListener(shop.app, shop.access, port=0) as listener,
            Client(listener.url, shop.tokens["owner"]) as client,
        ):
            rows = ({"id": n, "word": "w" * 5000} for n in range(1, 101))
            with ThreadPoolExecutor(1) as pool:
                pushed = pool.submit(client.push, "orders", rows)
                assert not wait([pushed], timeout=0.5).done
                proceed.set()
                assert pushed.result(60) == 100
        assert max(batch_bytes) <= narrow.max_unacknowledged_bytes
        assert len(shop.mill.rows("orders")) == 100


def push(
    shop: ServedProject, url: str, number: int, body: bytes, media: str = "application/x-ndjson"
) -> httpx.Response:
    headers = {
        "Authorization": f"Bearer {shop.tokens['owner']}",
        "Content-Type": media,
        "Tidemill-Producer": "http",
        "Tidemill-Number": str(number),
    }
    return httpx.post(f"{url}/api/v1/channels/orders/events", content=body, headers=headers)


def test_messages_may_be_pushed_over_http(shop: ServedProject, url: str) -> None:
    line = b'{"id": 1, "word": "http"}\n'
    assert (push(shop, url, 1, line).status_code, push(shop, url, 1, line).status_code) == (201, 200)
    assert push(shop, url, 1, line).json() == {"acknowledged": 1, "repeated": True}
    assert "message 3 arrived, but 2 was expected" in push(shop, url, 3, line).text
    assert push(shop, url, 2, line * 2).status_code == 201
    assert read_ids(shop, "http") == [1, 1, 1]
    assert push(shop, url, 3, line, media="text/csv").status_code == 415
    large = push(shop, url, 4, b" " * (LONG_LIVED.max_message_bytes + 1))
    assert (large.status_code, large.json()["error"]["kind"]) == (413, "TooLarge")


def test_the_client_reconnects_when_its_connection_expires(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The token is checked again with every connection."""
    short = replace(LONG_LIVED, stream_seconds=0.05)
    with serve_project(tmp_path_factory.mktemp("short"), options=short) as shop:
        with (
            HttpListener(shop.app, shop.access, port=0) as listener,
            Client(listener.url, shop.tokens["owner"]) as client,
        ):
            assert client.push("orders", ({"id": n, "word": "slow"} for n in range(1, 5001))) == 5000
            entries = [e for e in shop.access.accounts.list_audit_entries() if e.action.startswith("SOCKET")]
        assert read_ids(shop, "slow") == list(range(1, 5001))
        assert len(entries) > 1
