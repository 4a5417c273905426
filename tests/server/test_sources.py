"""Sources: real sockets, a real folder, a real hub; each leased by one server at a time."""

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
from tests.server.mill import ServedProject, serve_project

from tidemill.app.serving import start_sources
from tidemill.app.settings import Settings
from tidemill.app.sources import build_subscriptions, format_lease_name
from tidemill.errors import BadInput, CatalogError, StorageError
from tidemill.intake.sources.folder import FolderSource
from tidemill.intake.sources.tcp import TcpSource
from tidemill.intake.sources.websub import WebSubSource, to_json_lines
from tidemill.runtime.runs.sources import DataSource, SourceRunner
from tidemill.server.http_server import HttpListener

PATIENCE = 30.0
SECRET = "a secret of some length"


class Wakeup:
    """Called when data arrives; waits until a condition is true."""

    def __init__(self) -> None:
        self._called = threading.Semaphore(0)

    def __call__(self) -> None:
        self._called.release()

    def wait_until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            assert self._called.acquire(timeout=PATIENCE), "no data arrived"


def build_settings(**options: object) -> Settings:
    quick = {"push": {"max_wait": 0.05}, "server": {"leader_timeout": 1.0}}
    return Settings.model_validate({"sources": {"s": {"channel": "orders", **options}}, **quick})


def read_ids(shop: ServedProject) -> list[int]:
    return sorted(row["id"] for row in shop.mill.rows("orders"))


# TCP.


class LineServer(socketserver.ThreadingTCPServer):
    """Sends the next script to each client that connects, and closes the connection."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, *scripts: list[bytes]) -> None:
        super().__init__(("127.0.0.1", 0), _LineHandler)
        self.scripts = list(scripts)


class _LineHandler(socketserver.BaseRequestHandler):
    server: LineServer

    def handle(self) -> None:
        if self.server.scripts:
            for piece in self.server.scripts.pop(0):
                self.request.sendall(piece)
        else:
            self.request.recv(1)  # until the client closes the connection


@contextmanager
def run_server(server: socketserver.BaseServer) -> Iterator[None]:
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_lines_are_read_over_broken_connections(tmp_path: Path) -> None:
    lines = [b'{"id": 1, "word": "a"}\n{"id": 2, "wo', b'rd": "b"}\n', b'{"id": "bad"}\n{"id": 3}\n']
    line_server = LineServer(lines, [b'no json\n{"id": 4}\n{"id": 5}'])
    settings = build_settings(kind="tcp", host="127.0.0.1", port=line_server.server_address[1])
    wakeup = Wakeup()
    with run_server(line_server), serve_project(tmp_path, settings=settings) as shop, start_sources(shop.mill, wakeup):
        wakeup.wait_until(lambda: read_ids(shop) == [1, 2, 3, 4, 5])


def test_lines_that_were_read_are_inserted_when_the_server_stops() -> None:
    inserted: list[bytes] = []
    receiver, sender = socket.socketpair()
    with receiver, sender:
        sender.sendall(b'{"id": 1}\n{"id": 2}\n{"id"')
        answers = iter([True, False, False])
        source = TcpSource("s", "h", 1, inserted.append, lambda _: None, seconds=60.0)
        source._read_connection(receiver, lambda: next(answers))
    assert inserted == [b'{"id": 1}\n{"id": 2}\n']


def test_a_failed_insert_is_retried() -> None:
    inserted: list[bytes] = []
    errors = [StorageError("full"), CatalogError("gone")]

    def insert(lines: bytes) -> None:
        if errors:
            raise errors.pop()
        inserted.append(lines)

    receiver, sender = socket.socketpair()
    with receiver:
        sender.sendall(b'{"id": 1}\n')
        sender.close()
        TcpSource("s", "h", 1, insert, lambda _: None)._read_connection(receiver, lambda: True)
    assert inserted == [b'{"id": 1}\n']


# Folders.


class Folder:
    """A folder source that a test scans step by step."""

    def __init__(self, path: Path, shop: ServedProject) -> None:
        self.path, self.shop, self.now = path, shop, 0.0
        self.restart()

    def restart(self) -> None:
        """Create the source again, as a restarted server does."""
        insert_once = self.shop.mill.insert_batcher.inserter.insert_once
        self.source = FolderSource(
            "s",
            self.path,
            lambda path, digest: insert_once("orders", path, digest) is not None,
            lambda _: None,
            lambda: self.now,
            settle_seconds=2.0,
        )

    def write(self, name: str, *numbers: int, ahead: float = 0.0) -> Path:
        """Write a file at a time by the file system's clock, which may be ahead of the server's."""
        path = self.path / name
        path.write_text("id,word\n" + "".join(f"{n},w\n" for n in numbers))
        os.utime(path, (self.now + ahead, self.now + ahead))
        return path

    def scan_after(self, seconds: float) -> list[int]:
        self.now += seconds
        self.source.scan_folder(lambda: True)
        return read_ids(self.shop)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Folder]:
    (tmp_path / "in").mkdir()
    with serve_project(tmp_path) as shop:
        yield Folder(tmp_path / "in", shop)


@pytest.mark.parametrize("ahead", [0.0, 3600.0, -3600.0])
def test_a_file_is_inserted_after_its_quiet_period_by_any_clock_of_the_file_system(
    folder: Folder, ahead: float
) -> None:
    folder.now = 10_000.0
    folder.write("a.csv", 1, 2, ahead=ahead)
    assert folder.scan_after(1) == []  # the first scan that sees the file
    assert folder.scan_after(1.5) == []
    assert folder.scan_after(0.5) == [1, 2]
    assert folder.scan_after(10) == [1, 2]


def test_a_growing_file_is_not_inserted(folder: Folder) -> None:
    folder.write("a.csv", 1)
    assert folder.scan_after(3) == []  # the first scan that sees the file
    folder.write("a.csv", 1, 2)
    assert folder.scan_after(0.1) == []
    assert folder.scan_after(3) == [1, 2]


def test_a_content_is_inserted_once_under_any_name_and_after_a_restart(folder: Folder) -> None:
    folder.write("a.csv", 1)
    folder.scan_after(3), folder.scan_after(3)
    folder.restart()
    folder.write("copy.csv", 1)
    folder.write("b.csv", 2)
    folder.scan_after(3), folder.scan_after(3)
    assert read_ids(folder.shop) == [1, 2]


def test_hidden_and_partial_files_are_ignored(folder: Folder) -> None:
    for name in (".a.csv", "b.csv.part", "c.csv.tmp"):
        folder.write(name, 1)
    (folder.path / "directory.csv").mkdir()
    folder.scan_after(3)
    assert folder.scan_after(3) == []
    (folder.path / "b.csv.part").rename(folder.path / "b.csv")
    folder.scan_after(3)
    assert folder.scan_after(3) == [1]


def test_a_bad_file_is_skipped_until_it_changes(folder: Folder, caplog: pytest.LogCaptureFixture) -> None:
    folder.write("a.csv").write_text("id,word\nx,y\n")
    folder.write("b.csv", 2)
    for _ in range(3):
        folder.scan_after(1e10)
    assert read_ids(folder.shop) == [2]
    assert caplog.text.count("skipped until it changes") == 1
    folder.write("a.csv", 1)
    folder.scan_after(3)
    assert folder.scan_after(3) == [1, 2]


def test_a_file_that_changes_while_it_is_read_is_not_inserted(folder: Folder) -> None:
    path = folder.write("a.csv", 1)
    with pytest.raises(BadInput, match="changed while it was read"):
        folder.shop.mill.insert_batcher.inserter.insert_once("orders", path, "0" * 64)
    assert read_ids(folder.shop) == []


def test_a_folder_is_configured_in_the_settings(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    settings = build_settings(kind="folder", path="in", pattern="*.csv", quiet_period=0.0)
    wakeup = Wakeup()
    with serve_project(tmp_path, settings=settings) as shop, start_sources(shop.mill, wakeup):
        (tmp_path / "in" / "other.txt").write_text("x")
        (tmp_path / "in" / "a.csv").write_text("id,word\n7,w\n")
        wakeup.wait_until(lambda: read_ids(shop) == [7])


# WebSub.


class Hub(ThreadingHTTPServer):
    """Grants each subscription once the subscriber has confirmed it."""

    daemon_threads = True

    def __init__(self, granted: int) -> None:
        super().__init__(("127.0.0.1", 0), _HubHandler)
        self.granted = granted
        self.requests: list[dict[str, str]] = []
        self.verified = Wakeup()
        self.challenges: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def verify(self, request: dict[str, str]) -> None:
        parameters = {
            "hub.mode": request["hub.mode"],
            "hub.topic": request["hub.topic"],
            "hub.challenge": "ch4llenge",
            "hub.lease_seconds": str(self.granted),
        }
        self.challenges.append(httpx.get(f"{request['hub.callback']}?{urlencode(parameters)}").text)
        self.verified()


class _HubHandler(BaseHTTPRequestHandler):
    server: Hub

    def do_GET(self) -> None:
        """The topic, which links to its hub."""
        self.send_response(200)
        self.send_header("Link", f'<{self.server.url}/hub>; rel="hub", <{self.server.url}/topic>; rel="self"')
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        request = {name: values[0] for name, values in parse_qs(body).items()}
        self.server.requests.append(request)
        self.send_response(202)
        self.send_header("Content-Length", "0")
        self.end_headers()
        threading.Thread(target=self.server.verify, args=(request,)).start()

    def log_message(self, *_args: object) -> None:
        return


def find_free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def subscribe_to_hub(directory: Path, granted: int) -> Iterator[tuple[ServedProject, Hub, WebSubSource, str]]:
    hub, port = Hub(granted), find_free_port()
    callback = f"http://127.0.0.1:{port}"
    settings = build_settings(kind="websub", topic=f"{hub.url}/topic", callback=callback, secret=SECRET)
    (subscription,) = build_subscriptions(settings.sources).values()
    with (
        run_server(hub),
        serve_project(directory, settings=settings) as shop,
        HttpListener(shop.app, shop.access, port=port),
    ):
        yield shop, hub, subscription, callback + subscription.callback_path


def publish(url: str, body: bytes, signature: str | None = None, media: str = "application/json") -> int:
    """Send a body to the callback, with a valid signature unless one is given."""
    valid = f"sha256={hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()}"
    headers = {"Content-Type": media, "X-Hub-Signature": valid if signature is None else signature}
    return httpx.post(url, content=body, headers=headers).status_code


def test_a_subscription_is_verified_and_its_lease_renewed(tmp_path: Path) -> None:
    with subscribe_to_hub(tmp_path, granted=1) as (shop, hub, subscription, _):
        with start_sources(shop.mill, lambda: None):
            hub.verified.wait_until(lambda: len(hub.challenges) >= 2)
        until = shop.mill.catalog.servers.read_lease_end(format_lease_name(subscription))
    assert hub.challenges[0] == "ch4llenge"
    assert hub.requests[0]["hub.mode"] == "subscribe"
    assert hub.requests[0]["hub.secret"] == SECRET
    assert until is not None


def test_a_valid_lease_is_not_requested_again(tmp_path: Path) -> None:
    with subscribe_to_hub(tmp_path, granted=1000) as (shop, hub, _, _):
        with start_sources(shop.mill, lambda: None):
            hub.verified.wait_until(lambda: len(hub.challenges) == 1)
        with start_sources(shop.mill, lambda: None):  # another server
            pass
        assert len(hub.requests) == 1


def test_signed_messages_of_a_hub_are_inserted_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with subscribe_to_hub(tmp_path, granted=100) as (shop, _, _, url):
        many = json.dumps([{"id": 1, "word": "a"}, {"id": 2}], indent=1).encode()
        assert [publish(url, many), publish(url, many)] == [204, 204]
        assert publish(url, b'{"id": 3}\n{"id": 4}', media="application/x-ndjson") == 204
        for wrong in ("", "sha256=00", "sha1=00", "md5", "sha256="):
            assert publish(url, b'{"id": 9}', wrong) == 202
        assert publish(url, b"no json") == 400
        assert read_ids(shop) == [1, 2, 3, 4]
    assert "that the hub did not sign" in caplog.text


def test_unknown_callbacks_and_topics_are_rejected(tmp_path: Path) -> None:
    with subscribe_to_hub(tmp_path, granted=100) as (_, _, subscription, url):
        assert publish(url.replace(subscription.callback_path, "/websub/s/" + "0" * 64), b'{"id": 1}') == 404
        for parameters in (
            {"hub.mode": "unsubscribe", "hub.topic": subscription.topic},
            {"hub.mode": "subscribe", "hub.topic": "x"},
        ):
            answer = httpx.get(url, params=parameters | {"hub.challenge": "c"})
            assert (answer.status_code, answer.text == "c") == (404, False)
        denied = {"hub.mode": "denied", "hub.topic": subscription.topic, "hub.reason": "no"}
        assert httpx.get(url, params=denied).status_code == 200


def test_json_bodies_are_converted_to_lines() -> None:
    assert to_json_lines(b"[]", "application/json") == b""
    assert to_json_lines(b' [ {"a": [1,\n2]} ,{"b": "]"}] ', "application/json; x=y") == b'{"a": [1, 2]}\n{"b": "]"}'
    for wrong in (b"[1,", b"{", b"\xff"):
        with pytest.raises(BadInput, match="is not JSON"):
            to_json_lines(wrong, "application/json")


# The lease of a source.


def read_lease_end(shop: ServedProject) -> float:
    return shop.mill.catalog.servers.read_lease_end("source:s") or 0.0


def test_one_server_at_a_time_leases_a_source_and_the_next_takes_over(tmp_path: Path) -> None:
    turns: list[str] = []
    started = {"one": Wakeup(), "two": Wakeup()}

    def build_source(name: str) -> DataSource:
        def run_until_stopped(is_active: Callable[[], bool]) -> None:
            turns.append(name)
            started[name]()
            while is_active():
                stopping[name].wait(0.01)

        return DataSource("s", run_until_stopped)

    stopping = {name: threading.Event() for name in started}
    lease = 3.0  # renewed every second, so a renewal may be late by two
    with serve_project(tmp_path) as shop:
        first = SourceRunner(shop.mill.catalog.servers, "one", lease, stopping["one"]).start_sources(
            [build_source("one")]
        )
        started["one"].wait_until(lambda: turns == ["one"])
        with SourceRunner(shop.mill.catalog.servers, "two", 0.3, stopping["two"]).start_sources(
            [build_source("two")]
        ):  # tries ten times a second
            until = read_lease_end(shop)
            while read_lease_end(shop) < until + lease:  # renewed for longer than a lease
                stopping["two"].wait(0.02)
            assert turns == ["one"]
            with first:
                pass
            started["two"].wait_until(lambda: turns == ["one", "two"])
