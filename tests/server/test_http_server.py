"""The addresses on which the API listens."""

from __future__ import annotations

import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.server.mill import OPTIONS, ServedProject, serve_project

from tidemill.app.settings import ApiSettings
from tidemill.errors import ConfigError
from tidemill.server.access import AccessControl, Throttle
from tidemill.server.app import build_api
from tidemill.server.http_server import HttpListener, check_host


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "mill.example"])
def test_other_machines_need_access_control(open_shop: ServedProject, shop: ServedProject, host: str) -> None:
    with pytest.raises(ConfigError, match=f"listen on {host}.*access control is off; turn it on"):
        HttpListener(open_shop.app, open_shop.access, host)
    check_host(host, shop.access)


def test_access_control_that_is_switched_off_is_a_warning(
    open_shop: ServedProject, caplog: pytest.LogCaptureFixture
) -> None:
    check_host("0.0.0.0", AccessControl(open_shop.access.accounts, enabled=False, admits_all=True))
    assert "everyone who can reach it is an admin" in caplog.text


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, False),
        ({"host": "0.0.0.0"}, True),
        ({"host": "mill.example"}, True),
        ({"host": "::1"}, False),
        ({"trusted_proxies": ("10.0.0.1",)}, True),
        ({"host": "0.0.0.0", "authentication": False}, False),
        ({"authentication": True}, True),
    ],
)
def test_tokens_are_required_as_soon_as_others_can_reach_the_api(settings: dict[str, Any], expected: bool) -> None:
    assert ApiSettings(**settings).requires_token is expected


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_the_api_answers_on_the_loopback_address(open_shop: ServedProject, host: str) -> None:
    with HttpListener(open_shop.app, open_shop.access, host, port=0) as listener:
        answer = httpx.get(f"{listener.url}/healthz")
    assert answer.json() == {"status": "ok", "reason": None}
    assert "server" not in answer.headers


def test_a_forwarded_address_is_ignored(open_shop: ServedProject) -> None:
    with HttpListener(open_shop.app, open_shop.access, port=0) as listener:
        answer = httpx.get(f"{listener.url}/api/v1/me", headers={"X-Forwarded-For": "10.0.0.1"})
    assert answer.json()["name"] == "local"


@pytest.mark.parametrize(("proxies", "status"), [((), 200), (("127.0.0.1",), 403), (("127.0.0.0/8",), 403)])
def test_only_a_trusted_proxy_names_the_caller(tmp_path: Path, proxies: tuple[str, ...], status: int) -> None:
    options = replace(OPTIONS, trusted_proxies=proxies)
    with (
        serve_project(tmp_path, enabled=False, options=options) as shop,
        HttpListener(shop.app, shop.access, port=0) as listener,
    ):
        answer = httpx.get(f"{listener.url}/api/v1/me", headers={"X-Forwarded-For": "10.0.0.1"})
    assert answer.status_code == status  # only this machine may call while access control is off


def test_callers_behind_a_trusted_proxy_are_throttled_apart(tmp_path: Path) -> None:
    with serve_project(tmp_path, options=replace(OPTIONS, trusted_proxies=("127.0.0.1",))) as shop:
        access = AccessControl(shop.access.accounts, enabled=True, throttle=Throttle(lambda: 0.0, max_failures=1))
        app = build_api(shop.mill, access, shop.app.state.options)
        with HttpListener(app, access, port=0) as listener:
            callers = ("10.0.0.1", "10.0.0.1", "10.0.0.2")
            headers = ({"X-Forwarded-For": caller, "Authorization": "Bearer wrong"} for caller in callers)
            answers = [httpx.get(f"{listener.url}/api/v1/me", headers=sent).status_code for sent in headers]
    assert answers == [401, 429, 401]


@pytest.mark.parametrize(("proxies", "is_secure"), [((), False), (("127.0.0.1",), True)])
def test_the_cookie_is_secure_if_a_trusted_proxy_terminates_tls(
    tmp_path: Path, proxies: tuple[str, ...], is_secure: bool
) -> None:
    with (
        serve_project(tmp_path, options=replace(OPTIONS, trusted_proxies=proxies)) as shop,
        HttpListener(shop.app, shop.access, port=0) as listener,
    ):
        sent = {"token": shop.tokens["viewer"]}
        answer = httpx.post(f"{listener.url}/login", data=sent, headers={"X-Forwarded-Proto": "https"})
    attributes = {part.strip().lower() for part in answer.headers["set-cookie"].split(";")}
    assert {"httponly", "samesite=strict"} <= attributes
    assert ("secure" in attributes) is is_secure


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
