"""Whom requests are made to, from which pages, and what every answer carries."""

from __future__ import annotations

import asyncio

import pytest
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send
from tests.server.mill import Caller, Served

from tidemill.server.error_handlers import ErrorResponder
from tidemill.server.request_guard import HEADERS, RequestGuard


@pytest.mark.parametrize("host", ["127.0.0.1:8484", "LOCALHOST", "[::1]:1", "mill.example", "Mill.Example:443"])
def test_own_names_are_known(open_shop: Served, host: str) -> None:
    assert open_shop.client(None).get("/me", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "", "a@127.0.0.1", "x:y:z", "127.0.0.1:0"])
def test_other_names_are_refused(open_shop: Served, host: str) -> None:
    answer = open_shop.client(None).get("/me", headers={"Host": host})
    assert (answer.status_code, answer.json()["error"]["kind"]) == (421, "Misdirected")


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:9999"},
        {"Origin": ""},
        {"Sec-Fetch-Site": "cross-site"},
    ],
)
def test_pages_of_others_change_nothing(open_shop: Served, headers: dict[str, str]) -> None:
    client = open_shop.client(None)
    assert client.post("/workflows/shop/pause", headers=headers).status_code == 403
    assert [w.paused for w in open_shop.mill.catalog.list_workflows()] == [False]
    assert client.get("/me", headers=headers).status_code == 200


@pytest.mark.parametrize(
    ("headers", "let_in"),
    [
        ([(b"host", b"localhost:1"), (b"origin", b"http://localhost:1")], True),
        ([(b"host", b"localhost:1"), (b"origin", b"http://evil.example")], False),
        ([(b"host", b"evil.example"), (b"origin", b"http://evil.example")], False),
    ],
)
def test_sockets_of_others_are_not_opened(open_shop: Served, headers: list[tuple[bytes, bytes]], let_in: bool) -> None:
    reached: list[str] = []
    sent: list[Message] = []

    async def inside(scope: Scope, _receive: Receive, _send: Send) -> None:
        reached.append(scope["type"])

    async def receive() -> Message:
        return {"type": "websocket.connect"}

    async def send(message: Message) -> None:
        sent.append(message)

    guard = RequestGuard(inside, names=(), responder=ErrorResponder(open_shop.mill.directory))
    asyncio.run(guard({"type": "websocket", "path": "/x", "headers": headers}, receive, send))
    assert reached == (["websocket"] if let_in else [])
    answered = [(m["type"], m["status"]) for m in sent[:1]]
    assert answered == (
        [] if let_in else [("websocket.http.response.start", 403 if b"localhost:1" in headers[0] else 421)]
    )


def test_headers_that_are_set_are_kept(open_shop: Served) -> None:
    open_shop.app.add_route("/page", lambda _: Response("x", headers={"Content-Security-Policy": "default-src 'none'"}))
    answer = open_shop.client(None).get("http://127.0.0.1/page")
    assert answer.headers["content-security-policy"] == "default-src 'none'"
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_the_own_page_may(open_shop: Served) -> None:
    own = {"Origin": "http://localhost:8484", "Host": "localhost:8484", "Sec-Fetch-Site": "same-origin"}
    assert open_shop.client(None).post("/workflows/shop/pause", headers=own).status_code == 200


@pytest.mark.parametrize("path", ["/me", "/nothing", "/channels/1", "/healthz", "/events/stream"])
def test_every_answer_carries_the_headers(shop: Served, path: str) -> None:
    for client in (shop.client(), shop.client(None), Caller(shop.app, {"Host": "evil.example"})):
        answer = client.get(path)
        carried = {name: answer.headers.get(name) for name in HEADERS}
        assert carried | {"Cache-Control": "no-store"} == HEADERS
        assert carried["Cache-Control"] in ("no-store", "no-cache")  # streams have their own word for it
        assert "access-control-allow-origin" not in answer.headers


def test_faults_are_answered_without_what_is_inside(shop: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise RuntimeError(f"SELECT secret FROM {shop.mill.directory}")

    monkeypatch.setattr(shop.mill.catalog, "list_workflows", broken)
    answer = shop.client().get("/workflows")
    assert answer.status_code == 500
    assert answer.json()["error"]["kind"] == "TidemillError"
    assert "SELECT" not in answer.text
    assert HEADERS.items() <= {name: answer.headers.get(name) for name in HEADERS}.items()


def test_what_is_not_there(shop: Served) -> None:
    assert shop.client().get("/nothing").json()["error"]["kind"] == "NotFound"
    refused = shop.client().delete("/channels")
    assert (refused.status_code, refused.json()["error"]["kind"]) == (405, "NoSuchMethod")
    assert refused.headers["allow"] == "GET"
