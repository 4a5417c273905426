"""Connections without requests are closed, and never keep callers out."""

from __future__ import annotations

import resource
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from tests.server.mill import OPTIONS, serve_project
from websockets.sync.client import connect

from tidemill.server.connection_guard import reserve_files
from tidemill.server.http_server import HttpListener


@contextmanager
def listen(directory: Path, **options: float) -> Iterator[HttpListener]:
    with (
        serve_project(directory, enabled=False, options=replace(OPTIONS, **options)) as shop,
        HttpListener(shop.app, shop.access, port=0) as listener,
    ):
        yield listener


def open_socket(listener: HttpListener) -> socket.socket:
    port = int(listener.url.rpartition(":")[2])
    return socket.create_connection(("127.0.0.1", port), timeout=10)


def is_closed(connection: socket.socket) -> bool:
    """Whether the server closes the connection within the time limit."""
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


@pytest.mark.parametrize("sent", [b"", b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"])
def test_a_connection_that_sends_no_complete_headers_is_closed(tmp_path: Path, sent: bytes) -> None:
    with listen(tmp_path, header_timeout=0.2) as listener, open_socket(listener) as connection:
        connection.sendall(sent)
        assert is_closed(connection)


def test_headers_that_arrive_byte_by_byte_do_not_prolong_the_time(tmp_path: Path) -> None:
    with listen(tmp_path, header_timeout=0.5) as listener, open_socket(listener) as connection:
        start = time.monotonic()
        connection.sendall(b"GET /healthz HTTP/1.1\r\nX: ")
        with pytest.raises(OSError):
            while time.monotonic() < start + 10:
                connection.sendall(b"x")
                time.sleep(0.05)
        assert time.monotonic() - start < 5


def test_a_connection_that_begins_no_second_request_is_closed(tmp_path: Path) -> None:
    with listen(tmp_path, header_timeout=0.5) as listener, open_socket(listener) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert connection.recv(10_000).startswith(b"HTTP/1.1 200")
        connection.sendall(b"GET /healthz HTTP/1.1\r\n")  # ends the keep-alive time-out of uvicorn
        assert is_closed(connection)


def test_endless_headers_are_refused(tmp_path: Path) -> None:
    with listen(tmp_path) as listener, open_socket(listener) as connection, pytest.raises(OSError):
        connection.sendall(b"GET /healthz HTTP/1.1\r\n")
        for _ in range(1000):
            connection.sendall(b"X: " + b"y" * 10_000 + b"\r\n")


def test_idle_connections_keep_no_caller_out(tmp_path: Path) -> None:
    with listen(tmp_path, max_connections=50) as listener, ExitStack() as stack:
        idle = [stack.enter_context(open_socket(listener)) for _ in range(120)]
        assert httpx.get(f"{listener.url}/healthz").status_code == 200
        assert is_closed(idle[0])  # the one that has waited longest
        newest = idle[-1]
        newest.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert newest.recv(10_000).startswith(b"HTTP/1.1 200")


def test_an_open_socket_is_not_idle(tmp_path: Path) -> None:
    with listen(tmp_path, header_timeout=0.2, stream_seconds=1.0) as listener:
        address = f"{listener.url.replace('http', 'ws')}/api/v1/channels/orders/subscribe"
        with connect(address) as subscription:
            assert "orders" in str(subscription.recv())
            time.sleep(0.5)
            assert subscription.ping().wait(5)


def test_the_limit_of_open_files_is_raised_for_the_connections() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
        assert reserve_files(100) == 100
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] > 600
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
