"""The pages' door: who looks, by a cookie."""

from __future__ import annotations

import asyncio

import httpx
import pytest
from starlette.responses import PlainTextResponse
from starlette.types import Message, Receive, Scope, Send
from tests.server.mill import HERE, Served

from tidemill.server.page_authentication import COOKIE, PageAuthentication


async def page(scope: Scope, receive: Receive, send: Send) -> None:
    """Stands for any page: says who looks."""
    caller = scope["state"]["caller"]
    await PlainTextResponse(f"{caller.name} {caller.role}")(scope, receive, send)


def ask(shop: Served, method: str, path: str, cookie: str | None = None, **sent: object) -> httpx.Response:
    async def asked() -> httpx.Response:
        transport = httpx.ASGITransport(PageAuthentication(page, access=shop.access), client=("127.0.0.1", 1))
        headers = {} if cookie is None else {"Cookie": f"{COOKIE}={cookie}"}
        async with httpx.AsyncClient(transport=transport, base_url=HERE, headers=headers) as client:
            return await client.request(method, path, **sent)  # type: ignore[arg-type]

    return asyncio.run(asked())


def test_without_a_cookie_there_is_a_form(shop: Served) -> None:
    answer = ask(shop, "GET", "/")
    assert (answer.status_code, answer.headers["location"]) == (303, "/login")
    assert 'type="password"' in ask(shop, "GET", "/login").text


def test_a_token_opens_the_pages_and_stays_out_of_scripts_reach(shop: Served) -> None:
    token = shop.tokens["viewer"]
    answer = ask(shop, "POST", "/login", data={"token": token})
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    set_cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in set_cookie
    assert "samesite=strict" in set_cookie
    assert ask(shop, "GET", "/runs", token).text.endswith("viewer")


@pytest.mark.parametrize("sent", ["", "nonsense", "tdm_1_wrong", "x" * 5000, "<script>alert(1)</script>"])
def test_what_is_no_token_opens_nothing(shop: Served, sent: str) -> None:
    answer = ask(shop, "POST", "/login", data={"token": sent})
    assert answer.status_code in (401, 413)
    assert "set-cookie" not in answer.headers
    assert "<script" not in answer.text


@pytest.mark.parametrize("cookie", ["nonsense", "tdm_1_wrong", "a b;;=c"])
def test_a_wrong_cookie_is_none(shop: Served, cookie: str) -> None:
    assert ask(shop, "GET", "/", cookie).status_code == 303


def test_leaving_takes_the_cookie_away(shop: Served) -> None:
    answer = ask(shop, "GET", "/logout", shop.tokens["viewer"])
    assert f'{COOKIE}=""' in answer.headers["set-cookie"]


def test_a_socket_without_a_cookie_is_not_opened(shop: Served) -> None:
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "websocket.connect"}

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {"type": "websocket", "path": "/_nicegui_ws/x", "headers": [], "client": ("127.0.0.1", 1)}
    asyncio.run(PageAuthentication(page, access=shop.access)(scope, receive, send))
    assert [m["type"] for m in sent] == ["websocket.close"]


def test_without_access_control_this_machine_is_an_admin(open_shop: Served) -> None:
    assert ask(open_shop, "GET", "/").text == "local admin"
