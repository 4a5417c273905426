"""Sources: real sockets, a real folder, a real hub; each held by one server at a time."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import socket
import socketserver
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlencode

import httpx
import pytest
from tests.server.mill import Served, served

from tidemill.app.settings import Settings
from tidemill.app.sources import build_subscriptions, format_lease_name
from tidemill.errors import BadInput, CatalogError, StorageError
from tidemill.intake.sources import FolderSource, TcpSource, WebSubSource
from tidemill.intake.sources.websub import to_json_lines
from tidemill.runtime.runs.sources import DataSource, SourceRunner
from tidemill.server.http_server import HttpListener

PATIENCE = 30.0
SECRET = "a secret of some length"


class Woken:
    """Called when data came; waits until something is so."""

    def __init__(self) -> None:
        self._called = threading.Semaphore(0)

    def __call__(self) -> None:
        self._called.release()

    def until(self, holds: Callable[[], bool]) -> None:
        while not holds():
            assert self._called.acquire(timeout=PATIENCE), "nothing came"


def with_source(**said: object) -> Settings:
    quick = {"push": {"seconds": 0.05}, "server": {"lead": 1.0}}
    return Settings.model_validate({"sources": {"s": {"channel": "orders", **said}}, **quick})


def ids(shop: Served) -> list[int]:
    return sorted(row["id"] for row in shop.mill.rows("orders"))


# TCP.


class Feeding(socketserver.ThreadingTCPServer):
    """Sends one script to each who connects, the next to the next, and hangs up."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, *scripts: list[bytes]) -> None:
        super().__init__(("127.0.0.1", 0), _Feed)
        self.scripts = list(scripts)


class _Feed(socketserver.BaseRequestHandler):
    server: Feeding

    def handle(self) -> None:
        if self.server.scripts:
            for piece in self.server.scripts.pop(0):
                self.request.sendall(piece)
        else:
            self.request.recv(1)  # until the other side hangs up


@contextmanager
def serving(server: socketserver.BaseServer) -> Iterator[None]:
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_lines_from_an_address_over_broken_connections(tmp_path: Path) -> None:
    lines = [b'{"id": 1, "word": "a"}\n{"id": 2, "wo', b'rd": "b"}\n', b'{"id": "bad"}\n{"id": 3}\n']
    feeding = Feeding(lines, [b'no json\n{"id": 4}\n{"id": 5}'])
    settings = with_source(kind="tcp", host="127.0.0.1", port=feeding.server_address[1])
    woken = Woken()
    with serving(feeding), served(tmp_path, settings=settings) as shop, shop.mill.sources(woken):
        woken.until(lambda: ids(shop) == [1, 2, 3, 4, 5])


def test_what_was_read_is_inserted_though_the_server_ends() -> None:
    taken: list[bytes] = []
    here, there = socket.socketpair()
    with here, there:
        there.sendall(b'{"id": 1}\n{"id": 2}\n{"id"')
        answers = iter([True, False, False])
        source = TcpSource("s", "h", 1, taken.append, lambda _: None, seconds=60.0)
        source._read_connection(here, lambda: next(answers))
    assert taken == [b'{"id": 1}\n{"id": 2}\n']


def test_while_nothing_can_be_inserted_it_is_tried_again() -> None:
    taken: list[bytes] = []
    trouble = [StorageError("full"), CatalogError("gone")]

    def take(lines: bytes) -> None:
        if trouble:
            raise trouble.pop()
        taken.append(lines)

    here, there = socket.socketpair()
    with here:
        there.sendall(b'{"id": 1}\n')
        there.close()
        TcpSource("s", "h", 1, take, lambda _: None)._read_connection(here, lambda: True)
    assert taken == [b'{"id": 1}\n']


# Folders.


class Folder:
    """A folder source, looked at by hand."""

    def __init__(self, path: Path, shop: Served) -> None:
        self.path, self.shop, self.now = path, shop, 0.0
        self.again()

    def again(self) -> None:
        """As after a restart."""
        once = self.shop.mill.insert_batcher.inserter.insert_once
        self.source = FolderSource(
            "s",
            self.path,
            lambda path, digest: once("orders", path, digest) is not None,
            lambda _: None,
            lambda: self.now,
            settle_seconds=2.0,
        )

    def write(self, name: str, *numbers: int) -> Path:
        path = self.path / name
        path.write_text("id,word\n" + "".join(f"{n},w\n" for n in numbers))
        os.utime(path, (self.now, self.now))
        return path

    def later(self, seconds: float) -> list[int]:
        self.now += seconds
        self.source.scan_folder(lambda: True)
        return ids(self.shop)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Folder]:
    (tmp_path / "in").mkdir()
    with served(tmp_path) as shop:
        yield Folder(tmp_path / "in", shop)


def test_a_file_is_taken_once_it_has_settled(folder: Folder) -> None:
    folder.write("a.csv", 1, 2)
    assert folder.later(1) == []
    assert folder.later(0.5) == []
    assert folder.later(1) == [1, 2]
    assert folder.later(10) == [1, 2]


def test_a_file_that_still_grows_is_not_taken(folder: Folder) -> None:
    folder.write("a.csv", 1)
    assert folder.later(3) == []  # it is seen for the first time
    folder.write("a.csv", 1, 2)
    assert folder.later(0.1) == []
    assert folder.later(3) == [1, 2]


def test_a_content_is_taken_once_whatever_its_name_and_whoever_asks(folder: Folder) -> None:
    folder.write("a.csv", 1)
    folder.later(3), folder.later(3)
    folder.again()
    folder.write("copy.csv", 1)
    folder.write("b.csv", 2)
    folder.later(3), folder.later(3)
    assert ids(folder.shop) == [1, 2]


def test_what_is_hidden_or_says_that_it_is_partial_is_left_alone(folder: Folder) -> None:
    for name in (".a.csv", "b.csv.part", "c.csv.tmp"):
        folder.write(name, 1)
    (folder.path / "directory.csv").mkdir()
    folder.later(3)
    assert folder.later(3) == []
    (folder.path / "b.csv.part").rename(folder.path / "b.csv")
    folder.later(3)
    assert folder.later(3) == [1]


def test_a_bad_file_is_left_out_until_it_changes(folder: Folder, caplog: pytest.LogCaptureFixture) -> None:
    folder.write("a.csv").write_text("id,word\nx,y\n")
    folder.write("b.csv", 2)
    for _ in range(3):
        folder.later(1e10)
    assert ids(folder.shop) == [2]
    assert caplog.text.count("skipped until it changes") == 1
    folder.write("a.csv", 1)
    folder.later(3)
    assert folder.later(3) == [1, 2]


def test_a_file_that_changes_while_it_is_read_is_not_inserted(folder: Folder) -> None:
    path = folder.write("a.csv", 1)
    with pytest.raises(BadInput, match="changed while it was read"):
        folder.shop.mill.insert_batcher.inserter.insert_once("orders", path, "0" * 64)
    assert ids(folder.shop) == []


def test_a_folder_of_the_settings(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    settings = with_source(kind="folder", path="in", pattern="*.csv", settle=0.0)
    woken = Woken()
    with served(tmp_path, settings=settings) as shop, shop.mill.sources(woken):
        (tmp_path / "in" / "other.txt").write_text("x")
        (tmp_path / "in" / "a.csv").write_text("id,word\n7,w\n")
        woken.until(lambda: ids(shop) == [7])


# WebSub.


class Hub(ThreadingHTTPServer):
    """Grants what it is asked for, once it is told that it was meant."""

    daemon_threads = True

    def __init__(self, granted: int) -> None:
        super().__init__(("127.0.0.1", 0), _Hub)
        self.granted = granted
        self.asked: list[dict[str, str]] = []
        self.verified = Woken()
        self.echoed: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def verify(self, wish: dict[str, str]) -> None:
        said = {
            "hub.mode": wish["hub.mode"],
            "hub.topic": wish["hub.topic"],
            "hub.challenge": "ch4llenge",
            "hub.lease_seconds": str(self.granted),
        }
        self.echoed.append(httpx.get(f"{wish['hub.callback']}?{urlencode(said)}").text)
        self.verified()


class _Hub(BaseHTTPRequestHandler):
    server: Hub

    def do_GET(self) -> None:
        """The topic, which says where its hub is."""
        self.send_response(200)
        self.send_header("Link", f'<{self.server.url}/hub>; rel="hub", <{self.server.url}/topic>; rel="self"')
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        wish = {name: values[0] for name, values in parse_qs(body).items()}
        self.server.asked.append(wish)
        self.send_response(202)
        self.send_header("Content-Length", "0")
        self.end_headers()
        threading.Thread(target=self.server.verify, args=(wish,)).start()

    def log_message(self, *_args: object) -> None:
        return


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def subscribed(directory: Path, granted: int) -> Iterator[tuple[Served, Hub, WebSubSource, str]]:
    hub, port = Hub(granted), free_port()
    callback = f"http://127.0.0.1:{port}"
    settings = with_source(kind="websub", topic=f"{hub.url}/topic", callback=callback, secret=SECRET)
    (subscription,) = build_subscriptions(settings.sources).values()
    with serving(hub), served(directory, settings=settings) as shop, HttpListener(shop.app, shop.access, port=port):
        yield shop, hub, subscription, callback + subscription.callback_path


def sent(url: str, body: bytes, signature: str | None = None, media: str = "application/json") -> int:
    """Signed as it should be, unless a signature is given."""
    right = f"sha256={hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()}"
    headers = {"Content-Type": media, "X-Hub-Signature": right if signature is None else signature}
    return httpx.post(url, content=body, headers=headers).status_code


def test_a_hub_asks_back_and_its_lease_is_renewed_in_time(tmp_path: Path) -> None:
    with subscribed(tmp_path, granted=1) as (shop, hub, subscription, _):
        with shop.mill.sources(lambda: None):
            hub.verified.until(lambda: len(hub.echoed) >= 2)
        until = shop.mill.catalog.read_lease_end(format_lease_name(subscription))
    assert hub.echoed[0] == "ch4llenge"
    assert hub.asked[0]["hub.mode"] == "subscribe"
    assert hub.asked[0]["hub.secret"] == SECRET
    assert until is not None


def test_a_lease_that_runs_is_not_asked_for_again(tmp_path: Path) -> None:
    with subscribed(tmp_path, granted=1000) as (shop, hub, _, _):
        with shop.mill.sources(lambda: None):
            hub.verified.until(lambda: len(hub.echoed) == 1)
        with shop.mill.sources(lambda: None):  # another server
            pass
        assert len(hub.asked) == 1


def test_what_a_hub_sends_is_inserted_once_if_it_is_signed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with subscribed(tmp_path, granted=100) as (shop, _, _, url):
        many = json.dumps([{"id": 1, "word": "a"}, {"id": 2}], indent=1).encode()
        assert [sent(url, many), sent(url, many)] == [204, 204]
        assert sent(url, b'{"id": 3}\n{"id": 4}', media="application/x-ndjson") == 204
        for wrong in ("", "sha256=00", "sha1=00", "md5", "sha256="):
            assert sent(url, b'{"id": 9}', wrong) == 202
        assert sent(url, b"no json") == 400
        assert ids(shop) == [1, 2, 3, 4]
    assert "that the hub did not sign" in caplog.text


def test_nobody_else_is_answered(tmp_path: Path) -> None:
    with subscribed(tmp_path, granted=100) as (_, _, subscription, url):
        assert sent(url.replace(subscription.callback_path, "/websub/s/" + "0" * 64), b'{"id": 1}') == 404
        for said in (
            {"hub.mode": "unsubscribe", "hub.topic": subscription.topic},
            {"hub.mode": "subscribe", "hub.topic": "x"},
        ):
            answer = httpx.get(url, params=said | {"hub.challenge": "c"})
            assert (answer.status_code, answer.text == "c") == (404, False)
        denied = {"hub.mode": "denied", "hub.topic": subscription.topic, "hub.reason": "no"}
        assert httpx.get(url, params=denied).status_code == 200


def test_json_in_every_dress() -> None:
    assert to_json_lines(b"[]", "application/json") == b""
    assert to_json_lines(b' [ {"a": [1,\n2]} ,{"b": "]"}] ', "application/json; x=y") == b'{"a": [1, 2]}\n{"b": "]"}'
    for wrong in (b"[1,", b"{", b"\xff"):
        with pytest.raises(BadInput, match="is not JSON"):
            to_json_lines(wrong, "application/json")


# Who holds a source.


def held_until(shop: Served) -> float:
    return shop.mill.catalog.read_lease_end("source:s") or 0.0


def test_one_server_at_a_time_holds_a_source_and_the_next_takes_over(tmp_path: Path) -> None:
    turns: list[str] = []
    began = {"one": Woken(), "two": Woken()}

    def work(name: str) -> DataSource:
        def until_told(still: Callable[[], bool]) -> None:
            turns.append(name)
            began[name]()
            while still():
                stopping[name].wait(0.01)

        return DataSource("s", until_told)

    stopping = {name: threading.Event() for name in began}
    lease = 3.0  # it is renewed every second, and may be late by two
    with served(tmp_path) as shop:
        first = SourceRunner(shop.mill.catalog, "one", lease, stopping["one"]).start_sources([work("one")])
        began["one"].until(lambda: turns == ["one"])
        with SourceRunner(shop.mill.catalog, "two", 0.3, stopping["two"]).start_sources(
            [work("two")]
        ):  # asks ten times a second
            until = held_until(shop)
            while held_until(shop) < until + lease:  # it is renewed for longer than a lease
                stopping["two"].wait(0.02)
            assert turns == ["one"]
            with first:
                pass
            began["two"].until(lambda: turns == ["one", "two"])
