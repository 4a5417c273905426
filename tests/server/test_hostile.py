"""Hostile input is rejected with an error that names its fault, never a server error, and changes nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
from tests.server.mill import OPTIONS, ServedProject, read_state, serve_project

NAMES = [
    "../../etc/passwd",
    "..",
    "/etc/passwd",
    "orders/../stock",
    "orders%2F..%2Fstock",
    "C:\\windows",
    "orders'; DROP TABLE channels; --",
    'orders" OR "1"="1',
    "orders\x00",
    "orders\n",
    "\ud800".encode("utf-8", "surrogatepass").decode("latin-1"),
    "ord\u0435rs",
    "x" * 10_000,
    "%s%n",
    "${jndi:ldap://x}",
    "<script>alert(1)</script>",
    "-1",
    "",
]
PATHS = [
    ("GET", "/channels/{}"),
    ("GET", "/channels/{}/rows"),
    ("GET", "/channels/{}/explain"),
    ("POST", "/channels/{}/compact"),
    ("GET", "/freshness-targets/{}"),
    ("GET", "/triggers/{}"),
    ("GET", "/channels/{}/lineage?tag=1"),
    ("GET", "/flows/{}"),
    ("POST", "/flows/{}/runs"),
    ("POST", "/channels/{}/blocks"),
    ("GET", "/runs/{}"),
    ("GET", "/blocks/{}/trace"),
    ("POST", "/workflows/{}/pause"),
    ("DELETE", "/users/{}"),
    ("DELETE", "/tokens/{}"),
]


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedProject]:
    with serve_project(tmp_path_factory.mktemp("shop")) as project:
        project.insert()
        yield project


@pytest.fixture(autouse=True)
def _check_that_nothing_changes(shop: ServedProject) -> Iterator[None]:
    before = read_state(shop.mill)
    yield
    assert read_state(shop.mill) == before


@pytest.mark.parametrize(("method", "path"), PATHS)
def test_hostile_names_are_rejected(shop: ServedProject, method: str, path: str) -> None:
    for name in NAMES:
        answer = shop.client().request(method, path.format(quote(name, safe="")), headers={"Content-Type": "text/csv"})
        assert answer.status_code in (400, 404, 405, 422), (name, answer.text)
        assert answer.json()["error"]["kind"] in {"Invalid", "NotFound", "BadInput", "NoSuchMethod"}
        assert str(shop.mill.directory) not in answer.text


@pytest.mark.parametrize(
    ("path", "params"),
    [
        ("/runs", {"limit": "0"}),
        ("/runs", {"limit": "1000000"}),
        ("/runs", {"limit": "1e3"}),
        ("/runs", {"before": str(2**63)}),
        ("/runs", {"state": "ready' OR 1=1"}),
        ("/runs", {"subject": "a\x00b"}),
        ("/events", {"after": "-1"}),
        ("/events", {"after": "9" * 400}),
        ("/channels/orders/rows", {"as_of": "²"}),
        ("/channels/orders/rows", {"as_of": "9" * 19}),
        ("/channels/orders/rows", {"as_of": "yesterday"}),
        ("/channels/orders/rows", {"limit": "-1"}),
        (f"/runs/{2**63}", {}),
        ("/blocks/0", {}),
        ("/triggers", {"flow": "../x"}),
    ],
)
def test_invalid_parameters_are_rejected(shop: ServedProject, path: str, params: dict[str, str]) -> None:
    answer = shop.client().get(path, params=params)
    assert (answer.status_code, answer.json()["error"]["kind"]) == (422, "Invalid")


@pytest.mark.parametrize("as_of", ["2026-99-99", "0000-01-01", "2026-01-01T25:00", "9999-12-31T23:59:59-23:59"])
def test_invalid_times_are_no_server_error(shop: ServedProject, as_of: str) -> None:
    assert shop.client().get("/channels/orders/rows", params={"as_of": as_of}).status_code in (200, 400)


@pytest.mark.parametrize("key", ["", "a b", "x" * 201, "a\tb"])
def test_invalid_idempotency_keys_are_rejected(shop: ServedProject, key: str) -> None:
    assert shop.insert(Idempotency_Key=key).status_code == 422


def nest_arrays(levels: int = 10_000) -> bytes:
    return b"[" * levels + b"]" * levels


@pytest.mark.parametrize(
    "body",
    [
        nest_arrays(),
        b'{"priority": ' + nest_arrays() + b"}",
        b"{",
        b"\xff\xfe",
        b'{"priority": "high"}',
        b'{"priority": 1e400}',
        b'{"priority": 99999999999999999999}',
        b'{"priority": 1, "more": 2}',
        b'{"priority": NaN}',
        b"null",
        b"",
        b'"\\ud800"',
    ],
)
def test_invalid_bodies_are_rejected(shop: ServedProject, body: bytes) -> None:
    headers = {"Content-Type": "application/json"}
    answer = shop.client().put("/workflows/shop/priority", content=body, headers=headers)
    assert answer.status_code in (400, 422), answer.text
    assert answer.json()["error"]["kind"] in {"Invalid", "BadInput"}


@pytest.mark.parametrize("declared", [True, False])
def test_large_bodies_are_rejected(shop: ServedProject, declared: bool) -> None:
    body = json.dumps({"priority": 1, "pad": "x" * OPTIONS.max_body_bytes}).encode()

    async def send_in_chunks() -> Any:
        for start in range(0, len(body), 1000):
            yield body[start : start + 1000]

    headers = {"Content-Type": "application/json"}
    sent: Any = body if declared else send_in_chunks()
    answer = shop.client().put("/workflows/shop/priority", content=sent, headers=headers)
    assert (answer.status_code, answer.json()["error"]["kind"]) == (413, "TooLarge")
    assert shop.access.accounts.list_audit_entries(limit=1)[0].outcome == 413


@pytest.mark.parametrize(
    ("media", "body"),
    [
        ("application/x-ndjson", nest_arrays() + b"\n"),
        ("application/x-ndjson", b'{"id": ' + nest_arrays() + b"}\n"),
        ("application/x-ndjson", b'{"id": 1, "id": 2}\n'),
        ("application/x-ndjson", b'{"id": 1e999999}\n'),
        ("application/x-ndjson", b'{"id": "1; DROP TABLE blocks"}\n'),
        ("application/x-ndjson", b'{"word": "\\ud800"}\n'),
        ("application/x-ndjson", b"\x00" * 1000),
        ("text/csv", b"id,word\n" + b'"' * 9_999),
        ("text/csv", b"id\n1\n"),
        ("text/csv", b""),
        ("text/csv", b"\xff\xfeid,word\n"),
        ("text/csv", b"id,word,../../x\n1,a,b\n"),
        ("text/csv", b"id,word\n" + b"9" * 5_000 + b",x\n"),
    ],
)
def test_invalid_data_is_rejected(shop: ServedProject, media: str, body: bytes) -> None:
    answer = shop.client().post("/channels/orders/blocks", content=body, headers={"Content-Type": media})
    assert (answer.status_code, answer.json()["error"]["kind"]) == (400, "BadInput"), answer.text


def test_file_names_are_ignored(shop: ServedProject) -> None:
    headers = {"Content-Type": "text/csv", "Content-Disposition": 'attachment; filename="../../../tmp/evil.csv"'}
    answer = shop.client().post("/channels/orders/blocks?filename=../../evil", content=b"bad", headers=headers)
    assert answer.status_code == 400
    assert "evil" not in answer.text


def test_unusual_paths_are_not_resolved(shop: ServedProject) -> None:
    for path in ("//api/v1/me", "/api/v1/../../etc/passwd", "/api/v1/me/", "/api/v1/%2e%2e/me", "/api/v1"):
        answer = shop.client().get(f"http://127.0.0.1{path}")
        assert answer.status_code in (303, 401, 404), (path, answer.text)
