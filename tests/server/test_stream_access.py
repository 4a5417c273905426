"""Connections that stay open lose their rights with their token."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace

import httpx
import pytest
from tests.server.mill import OPTIONS, ServedProject, serve_project
from websockets.sync.client import ClientConnection, connect

from tidemill.model.access import UserRole
from tidemill.server.http_server import HttpListener
from tidemill.wire.client_sockets import format_address

Change = Callable[[ServedProject, str], None]


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedProject]:
    """Streams last a minute, and check their token whenever they pass something."""
    options = replace(OPTIONS, stream_seconds=60.0, check_seconds=0.0, max_wait=0.02)
    with serve_project(tmp_path_factory.mktemp("shop"), options=options) as project:
        yield project


@pytest.fixture(scope="module")
def url(shop: ServedProject) -> Iterator[str]:
    with HttpListener(shop.app, shop.access, port=0) as listener:
        yield listener.url


@pytest.fixture
def token(shop: ServedProject) -> str:
    """A token that only this test uses, so that it can be revoked."""
    shop.access.accounts.save_user("guest", UserRole.ADMIN)
    return shop.access.accounts.issue_token("guest").text


def revoke(shop: ServedProject, token: str) -> None:
    shop.access.accounts.revoke_token(token.split("_")[1])


def demote(shop: ServedProject, _token: str) -> None:
    shop.access.accounts.save_user("guest", UserRole.VIEWER)


def open_socket(url: str, token: str, *path: str, **query: str) -> ClientConnection:
    headers = {"Authorization": f"Bearer {token}"}
    return connect(format_address(url, *path, **query), additional_headers=headers)


def receive(connection: ClientConnection) -> dict[str, object]:
    return dict(json.loads(connection.recv(timeout=30)))


@pytest.mark.parametrize(("change", "reason"), [(revoke, "revoked"), (demote, "the role of guest was changed")])
def test_a_producer_is_refused(shop: ServedProject, url: str, token: str, change: Change, reason: str) -> None:
    with open_socket(url, token, "channels", "orders", "push", producer=reason.split()[-1]) as producer:
        receive(producer)
        producer.send('1\n{"id": 1, "word": "before"}')
        assert receive(producer) == {"acknowledged": 1}
        change(shop, token)
        producer.send('2\n{"id": 2, "word": "after"}')
        assert reason in str(receive(producer)["error"])
    assert "after" not in {row["word"] for row in shop.mill.rows("orders")}


@pytest.mark.parametrize(("change", "reason"), [(revoke, "revoked"), (demote, "the role of guest was changed")])
def test_a_subscriber_gets_no_further_rows(
    shop: ServedProject, url: str, token: str, change: Change, reason: str
) -> None:
    with open_socket(url, token, "channels", "orders", "subscribe") as subscriber:
        receive(subscriber)
        change(shop, token)
        shop.insert()
        assert reason in str(receive(subscriber)["error"])


def test_a_stream_of_events_ends(shop: ServedProject, url: str, token: str) -> None:
    headers = {"Authorization": f"Bearer {token}"}
    with httpx.stream("GET", f"{url}/api/v1/events/stream", headers=headers, timeout=30) as stream:
        lines = stream.iter_lines()
        next(lines)
        revoke(shop, token)
        shop.insert()
        assert not [line for line in lines if line.startswith("data:")]
