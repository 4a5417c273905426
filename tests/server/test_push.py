"""Pushing over real sockets: numbers, acknowledgements, resends, refusals, limits, and who may."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import replace

import httpx
import pytest
from tests.server.mill import OPTIONS, Served, served
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from tidemill.client import Client
from tidemill.errors import BadInput, NotFound
from tidemill.runtime.runs.insert_batcher import InsertAnswer, InsertBatcher, InsertRequest
from tidemill.server.http_server import HttpListener
from tidemill.wire.client_sockets import format_address
from tidemill.wire.refusals import Forbidden, Invalid, Unidentified

LASTING = replace(OPTIONS, stream_seconds=60.0, max_wait=0.02)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("shop"), options=LASTING) as found:
        yield found


@pytest.fixture(scope="module")
def url(shop: Served) -> Iterator[str]:
    with HttpListener(shop.app, shop.access, port=0) as listener:
        yield listener.url


@pytest.fixture
def client(shop: Served, url: str) -> Iterator[Client]:
    with Client(url, shop.tokens["owner"], sleep=lambda _: None) as found:
        yield found


def socket(shop: Served, url: str, producer: str, channel: str = "orders") -> ClientConnection:
    headers = {"Authorization": f"Bearer {shop.tokens['owner']}"}
    return connect(format_address(url, "channels", channel, "push", producer=producer), additional_headers=headers)


def event(number: int, word: str) -> str:
    return f"{number}\n" + json.dumps({"id": number, "word": word})


def heard(connection: ClientConnection) -> dict[str, object]:
    return dict(json.loads(connection.recv(timeout=30)))


def until(connection: ClientConnection, number: int) -> None:
    while heard(connection)["acknowledged"] != number:
        pass


def ids(shop: Served, word: str, channel: str = "orders") -> list[int]:
    """Of the events with this word, in the channel now."""
    return sorted(row["id"] for row in shop.mill.rows(channel) if row["word"] == word)


def test_what_is_acknowledged_is_in_the_channel_and_resends_are_harmless(shop: Served, url: str) -> None:
    with socket(shop, url, "till") as first:
        assert heard(first) == {"producer": "till", "last": 0}
        first.send(event(1, "ack"))
        first.send(event(2, "ack") + "\n" + json.dumps({"id": 20, "word": "ack"}))
        until(first, 2)
        assert ids(shop, "ack") == [1, 2, 20]
    with socket(shop, url, "till") as again:
        assert heard(again) == {"producer": "till", "last": 2}
        for number in (1, 2, 3):
            again.send(event(number, "ack"))
        until(again, 3)
    assert ids(shop, "ack") == [1, 2, 3, 20]


def test_a_socket_that_broke_and_the_one_after_it_insert_once(shop: Served, url: str) -> None:
    with socket(shop, url, "twin") as old, socket(shop, url, "twin") as new:
        heard(old), heard(new)
        for number in range(1, 40):
            old.send(event(number, "twin"))
            new.send(event(number, "twin"))
        until(old, 39)
        until(new, 39)
    assert ids(shop, "twin") == list(range(1, 40))


def test_small_messages_share_blocks(shop: Served, url: str) -> None:
    before = shop.mill.catalog.read_channel("orders").head.seq
    with socket(shop, url, "many") as many:
        heard(many)
        for number in range(1, 501):
            many.send(event(number, "many"))
        until(many, 500)
    assert ids(shop, "many") == list(range(1, 501))
    assert shop.mill.catalog.read_channel("orders").head.seq - before < 50


def test_a_refused_message_says_why_and_nothing_after_it_is_taken(shop: Served, url: str) -> None:
    with socket(shop, url, "bad") as bad:
        heard(bad)
        bad.send(event(1, "bad"))
        bad.send('2\n{"id": "x", "word": "bad"}')
        bad.send(event(3, "bad"))
        said = heard(bad)
        if "acknowledged" in said:
            assert said == {"acknowledged": 1}
            said = heard(bad)
        assert said["number"] == 2
        assert str(said["error"]["message"]).startswith("message 2: row 1, column 'id'")
        with pytest.raises(ConnectionClosed):
            bad.recv(timeout=30)
    with socket(shop, url, "bad") as after:
        assert heard(after)["last"] == 1
        after.send("2\n")  # nothing, in its place
        after.send(event(3, "bad"))
        until(after, 3)
    assert ids(shop, "bad") == [1, 3]


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        (event(2, "gap"), "message 2 arrived, but 1 was expected"),
        ('{"id": 1}', "begins with its number on a separate line"),
        ("9" * 30 + "\n", "begins with its number"),
    ],
)
def test_what_is_out_of_order_or_no_message(shop: Served, url: str, sent: str, said: str) -> None:
    with socket(shop, url, "gap") as gap:
        heard(gap)
        gap.send(sent)
        assert said in heard(gap)["error"]["message"]
    assert ids(shop, "gap") == []


def test_a_message_that_is_too_large_closes_the_socket(shop: Served, url: str) -> None:
    with socket(shop, url, "large") as large:
        heard(large)
        with pytest.raises(ConnectionClosed, match="1009"):
            large.send(event(1, "x" * LASTING.max_message_bytes))
            large.recv(timeout=30)


def test_who_may_push(shop: Served, url: str) -> None:
    refused = {None: Unidentified, "viewer": Forbidden, "operator": Forbidden}
    for who, error in refused.items():
        with Client(url, who and shop.tokens[who]) as client, pytest.raises(error):
            client.push("orders", [{"id": 1, "word": "no"}])
    assert ids(shop, "no") == []


@pytest.mark.parametrize("name", ["../orders", "orders\x00", "x" * 1000, "orders'; DROP TABLE channels; --"])
@pytest.mark.parametrize("what", ["push", "follow"])
def test_hostile_names_open_no_socket(shop: Served, url: str, name: str, what: str) -> None:
    headers = {"Authorization": f"Bearer {shop.tokens['owner']}"}
    with pytest.raises(InvalidStatus) as refused:
        connect(format_address(url, "channels", name, what, producer="p"), additional_headers=headers)
    assert refused.value.response.status_code in (403, 404, 422)


def test_a_page_of_another_site_opens_no_socket(shop: Served, url: str) -> None:
    with pytest.raises(InvalidStatus) as refused:
        connect(format_address(url, "channels", "orders", "follow"), origin="http://evil.example")
    assert refused.value.response.status_code == 403
    assert "a page of another site" in refused.value.response.body.decode()


def test_a_server_that_ends_closes_its_sockets(tmp_path_factory: pytest.TempPathFactory) -> None:
    with served(tmp_path_factory.mktemp("ending"), options=LASTING) as shop, ExitStack() as stack:
        with HttpListener(shop.app, shop.access, port=0) as at:
            open_one = stack.enter_context(socket(shop, at.url, "p"))
            heard(open_one)
            open_one.send(event(1, "end"))
            until(open_one, 1)
        with pytest.raises(ConnectionClosed):
            open_one.recv(timeout=30)


def test_where_nobody_can_push(client: Client) -> None:
    with pytest.raises(NotFound, match="nowhere"):
        client.push("nowhere", [{"id": 1}])
    with pytest.raises(BadInput, match="words is derived"):
        client.push("words", [{"word": "a"}])
    with pytest.raises(Invalid, match="producer"):
        client.push("orders", [], producer="a b")


def test_a_push_is_written_down(shop: Served, client: Client) -> None:
    client.push("orders", [{"id": 1, "word": "audit"}])
    newest = shop.access.accounts.list_audit_entries()[0]
    assert (newest.user, newest.action, newest.outcome) == ("owner", "SOCKET /api/v1/channels/orders/push", 101)


def test_the_client_goes_on_where_it_was(shop: Served, client: Client) -> None:
    assert client.push("orders", ({"id": n, "word": "client"} for n in range(1, 2501)), producer="c") == 2500
    assert client.push("orders", [{"id": 1, "word": "client"}], producer="c", first=1) == 2500
    assert client.push("orders", [b'{"id": 2501, "word": "client"}'], producer="c") == 2501
    assert ids(shop, "client") == list(range(1, 2502))


def test_the_client_says_which_event_was_refused(shop: Served, client: Client) -> None:
    rows = [{"id": 1, "word": "said"}, {"id": "x", "word": "said"}, {"id": 3, "word": "said"}]
    with pytest.raises(BadInput, match="message 2: row 1, column 'id'"):
        client.push("orders", rows)
    assert ids(shop, "said") == [1]


def test_upserts_keep_the_order_of_their_producer(shop: Served, client: Client) -> None:
    client.push("stock", ({"id": n % 3, "word": f"w{n}"} for n in range(30)))
    assert {row["id"]: row["word"] for row in shop.mill.rows("stock")} == {0: "w27", 1: "w28", 2: "w29"}


def test_who_sends_faster_than_it_is_taken_has_to_wait(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While blocks cannot be made, no more is taken than the window allows; nothing is lost by it."""
    narrow = replace(LASTING, max_unacknowledged_bytes=20_000, max_message_bytes=10_000, max_wait=0.0)
    go_on, held = threading.Event(), list[int]()
    real = InsertBatcher.insert_all

    def stuck(self: InsertBatcher, wanted: Sequence[InsertRequest]) -> list[InsertAnswer]:
        held.append(sum(len(one.data) for one in wanted))
        go_on.wait(60)
        return real(self, wanted)

    monkeypatch.setattr(InsertBatcher, "insert_all", stuck)
    with served(tmp_path_factory.mktemp("narrow"), options=narrow) as shop:
        with HttpListener(shop.app, shop.access, port=0) as at, Client(at.url, shop.tokens["owner"]) as client:
            rows = ({"id": n, "word": "w" * 5000} for n in range(1, 101))
            with ThreadPoolExecutor(1) as pool:
                pushed = pool.submit(client.push, "orders", rows)
                assert not wait([pushed], timeout=0.5).done
                go_on.set()
                assert pushed.result(60) == 100
        assert max(held) <= narrow.max_unacknowledged_bytes
        assert len(shop.mill.rows("orders")) == 100


def push(shop: Served, url: str, number: int, body: bytes, media: str = "application/x-ndjson") -> httpx.Response:
    said = {
        "Authorization": f"Bearer {shop.tokens['owner']}",
        "Content-Type": media,
        "Tidemill-Producer": "http",
        "Tidemill-Number": str(number),
    }
    return httpx.post(f"{url}/api/v1/channels/orders/events", content=body, headers=said)


def test_over_http_the_same_holds(shop: Served, url: str) -> None:
    line = b'{"id": 1, "word": "http"}\n'
    assert (push(shop, url, 1, line).status_code, push(shop, url, 1, line).status_code) == (201, 200)
    assert push(shop, url, 1, line).json() == {"acknowledged": 1, "repeated": True}
    assert "message 3 arrived, but 2 was expected" in push(shop, url, 3, line).text
    assert push(shop, url, 2, line * 2).status_code == 201
    assert ids(shop, "http") == [1, 1, 1]
    assert push(shop, url, 3, line, media="text/csv").status_code == 415
    large = push(shop, url, 4, b" " * (LASTING.max_message_bytes + 1))
    assert (large.status_code, large.json()["error"]["kind"]) == (413, "TooLarge")


def test_when_its_time_is_up_the_client_comes_back(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The token is looked at again with every connection."""
    short = replace(LASTING, stream_seconds=0.05)
    with served(tmp_path_factory.mktemp("short"), options=short) as shop:
        with HttpListener(shop.app, shop.access, port=0) as at, Client(at.url, shop.tokens["owner"]) as client:
            assert client.push("orders", ({"id": n, "word": "slow"} for n in range(1, 5001))) == 5000
            entries = [e for e in shop.access.accounts.list_audit_entries() if e.action.startswith("SOCKET")]
        assert ids(shop, "slow") == list(range(1, 5001))
        assert len(entries) > 1
