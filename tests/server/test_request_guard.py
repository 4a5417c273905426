"""Checks of a request's host and origin, and the headers of every answer."""

from __future__ import annotations

import asyncio

import pytest
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send
from tests.server.mill import Caller, ServedProject

from tidemill.server.error_handlers import ErrorResponder
from tidemill.server.request_guard import HEADERS, RequestGuard


@pytest.mark.parametrize("host", ["127.0.0.1:8484", "LOCALHOST", "[::1]:1", "mill.example", "Mill.Example:443"])
def test_allowed_host_names_are_accepted(open_shop: ServedProject, host: str) -> None:
    assert open_shop.client(None).get("/me", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "", "a@127.0.0.1", "x:y:z", "127.0.0.1:0"])
def test_other_host_names_are_rejected(open_shop: ServedProject, host: str) -> None:
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
def test_pages_of_other_sites_can_only_read(open_shop: ServedProject, headers: dict[str, str]) -> None:
    client = open_shop.client(None)
    assert client.post("/workflows/shop/pause", headers=headers).status_code == 403
    assert [w.paused for w in open_shop.mill.catalog.workflows.list()] == [False]
    assert client.get("/me", headers=headers).status_code == 200


@pytest.mark.parametrize(
    ("headers", "accepted"),
    [
        ([(b"host", b"localhost:1"), (b"origin", b"http://localhost:1")], True),
        ([(b"host", b"localhost:1"), (b"origin", b"http://evil.example")], False),
        ([(b"host", b"evil.example"), (b"origin", b"http://evil.example")], False),
    ],
)
def test_pages_of_other_sites_cannot_open_sockets(
    open_shop: ServedProject, headers: list[tuple[bytes, bytes]], accepted: bool
) -> None:
    reached: list[str] = []
    sent: list[Message] = []

    async def app(scope: Scope, _receive: Receive, _send: Send) -> None:
        reached.append(scope["type"])

    async def receive() -> Message:
        return {"type": "websocket.connect"}

    async def send(message: Message) -> None:
        sent.append(message)

    guard = RequestGuard(app, names=(), responder=ErrorResponder(open_shop.mill.directory))
    asyncio.run(guard({"type": "websocket", "path": "/x", "headers": headers}, receive, send))
    assert reached == (["websocket"] if accepted else [])
    answers = [(m["type"], m["status"]) for m in sent[:1]]
    assert answers == (
        [] if accepted else [("websocket.http.response.start", 403 if b"localhost:1" in headers[0] else 421)]
    )


def test_headers_of_the_application_are_not_overwritten(open_shop: ServedProject) -> None:
    open_shop.app.add_route("/page", lambda _: Response("x", headers={"Content-Security-Policy": "default-src 'none'"}))
    answer = open_shop.client(None).get("http://127.0.0.1/page")
    assert answer.headers["content-security-policy"] == "default-src 'none'"
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_a_page_of_the_same_origin_may_change_workflows(open_shop: ServedProject) -> None:
    headers = {"Origin": "http://localhost:8484", "Host": "localhost:8484", "Sec-Fetch-Site": "same-origin"}
    assert open_shop.client(None).post("/workflows/shop/pause", headers=headers).status_code == 200


@pytest.mark.parametrize("path", ["/me", "/nothing", "/channels/1", "/healthz", "/events/stream"])
def test_every_answer_has_the_security_headers(shop: ServedProject, path: str) -> None:
    for client in (shop.client(), shop.client(None), Caller(shop.app, {"Host": "evil.example"})):
        answer = client.get(path)
        actual = {name: answer.headers.get(name) for name in HEADERS}
        assert actual | {"Cache-Control": "no-store"} == HEADERS
        assert actual["Cache-Control"] in ("no-store", "no-cache")  # streams set another value
        assert "access-control-allow-origin" not in answer.headers


def test_server_errors_reveal_no_internals(shop: ServedProject, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise RuntimeError(f"SELECT secret FROM {shop.mill.directory}")

    monkeypatch.setattr(shop.mill.catalog.workflows, "list", fail)
    answer = shop.client().get("/workflows")
    assert answer.status_code == 500
    assert answer.json()["error"]["kind"] == "TidemillError"
    assert "SELECT" not in answer.text
    assert HEADERS.items() <= {name: answer.headers.get(name) for name in HEADERS}.items()


def test_unknown_routes_and_methods_are_rejected(shop: ServedProject) -> None:
    assert shop.client().get("/nothing").json()["error"]["kind"] == "NotFound"
    rejected = shop.client().delete("/channels")
    assert (rejected.status_code, rejected.json()["error"]["kind"]) == (405, "NoSuchMethod")
    assert rejected.headers["allow"] == "GET"
