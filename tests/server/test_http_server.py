"""The addresses on which the API listens."""

from __future__ import annotations

import socket

import httpx
import pytest
from tests.server.mill import ServedProject

from tidemill.errors import ConfigError
from tidemill.server.http_server import HttpListener, check_host


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "mill.example"])
def test_other_machines_need_access_control(open_shop: ServedProject, shop: ServedProject, host: str) -> None:
    with pytest.raises(ConfigError, match=f"listen on {host}.*access control is off; turn it on"):
        HttpListener(open_shop.app, open_shop.access, host)
    check_host(host, shop.access)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_the_api_answers_on_the_loopback_address(open_shop: ServedProject, host: str) -> None:
    with HttpListener(open_shop.app, open_shop.access, host, port=0) as listener:
        answer = httpx.get(f"{listener.url}/healthz")
    assert answer.json() == {"status": "ok"}
    assert "server" not in answer.headers


def test_a_forwarded_address_is_ignored(open_shop: ServedProject) -> None:
    with HttpListener(open_shop.app, open_shop.access, port=0) as listener:
        answer = httpx.get(f"{listener.url}/api/v1/me", headers={"X-Forwarded-For": "10.0.0.1"})
    assert answer.json()["name"] == "local"


def test_a_port_in_use_is_reported(open_shop: ServedProject) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(ConfigError, match=f"port {port}: .*choose another"):
            HttpListener(open_shop.app, open_shop.access, port=port)


def test_an_unknown_host_is_reported(shop: ServedProject) -> None:
    with pytest.raises(ConfigError, match="cannot listen on no.such.host.invalid"):
        HttpListener(shop.app, shop.access, "no.such.host.invalid")
