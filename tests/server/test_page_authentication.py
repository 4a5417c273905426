"""Pages authenticate their reader by a cookie."""

from __future__ import annotations

import asyncio

import httpx
import pytest
from starlette.responses import PlainTextResponse
from starlette.types import Message, Receive, Scope, Send
from tests.server.mill import BASE_URL, ServedProject

from tidemill.server.page_authentication import COOKIE, PageAuthentication


async def page(scope: Scope, receive: Receive, send: Send) -> None:
    """A page that returns the name and role of its reader."""
    caller = scope["state"]["caller"]
    await PlainTextResponse(f"{caller.name} {caller.role}")(scope, receive, send)


def send_request(
    shop: ServedProject, method: str, path: str, cookie: str | None = None, **sent: object
) -> httpx.Response:
    async def send() -> httpx.Response:
        transport = httpx.ASGITransport(PageAuthentication(page, access=shop.access), client=("127.0.0.1", 1))
        headers = {} if cookie is None else {"Cookie": f"{COOKIE}={cookie}"}
        async with httpx.AsyncClient(transport=transport, base_url=BASE_URL, headers=headers) as client:
            return await client.request(method, path, **sent)  # type: ignore[arg-type]

    return asyncio.run(send())


def test_without_a_cookie_a_login_form_is_shown(shop: ServedProject) -> None:
    answer = send_request(shop, "GET", "/")
    assert (answer.status_code, answer.headers["location"]) == (303, "/login")
    assert 'type="password"' in send_request(shop, "GET", "/login").text


def test_a_token_opens_the_pages_and_is_hidden_from_scripts(shop: ServedProject) -> None:
    token = shop.tokens["viewer"]
    answer = send_request(shop, "POST", "/login", data={"token": token})
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    set_cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in set_cookie
    assert "samesite=strict" in set_cookie
    assert send_request(shop, "GET", "/runs", token).text.endswith("viewer")


@pytest.mark.parametrize("sent", ["", "nonsense", "tdm_1_wrong", "x" * 5000, "<script>alert(1)</script>"])
def test_an_invalid_token_is_rejected(shop: ServedProject, sent: str) -> None:
    answer = send_request(shop, "POST", "/login", data={"token": sent})
    assert answer.status_code in (401, 413)
    assert "set-cookie" not in answer.headers
    assert "<script" not in answer.text


@pytest.mark.parametrize("cookie", ["nonsense", "tdm_1_wrong", "a b;;=c"])
def test_an_invalid_cookie_is_ignored(shop: ServedProject, cookie: str) -> None:
    assert send_request(shop, "GET", "/", cookie).status_code == 303


def test_logging_out_deletes_the_cookie(shop: ServedProject) -> None:
    answer = send_request(shop, "GET", "/logout", shop.tokens["viewer"])
    assert f'{COOKIE}=""' in answer.headers["set-cookie"]


def test_a_socket_without_a_cookie_is_not_opened(shop: ServedProject) -> None:
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "websocket.connect"}

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {"type": "websocket", "path": "/_nicegui_ws/x", "headers": [], "client": ("127.0.0.1", 1)}
    asyncio.run(PageAuthentication(page, access=shop.access)(scope, receive, send))
    assert [m["type"] for m in sent] == ["websocket.close"]


def test_without_access_control_this_machine_is_an_admin(open_shop: ServedProject) -> None:
    assert send_request(open_shop, "GET", "/").text == "local admin"
