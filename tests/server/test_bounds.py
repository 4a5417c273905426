"""Small requests that would take much memory or time are refused at once, with an error about the request."""

from __future__ import annotations

import asyncio
import gzip
import time
import tracemalloc
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.server.mill import OPTIONS, ServedProject, serve_project

MB = 1 << 20
ORS = " OR ".join(["id = 1"] * 8000)
NESTED = "(" * 200 + "id" + ")" * 200


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedProject]:
    options = replace(OPTIONS, max_upload_bytes=64 * MB, max_body_bytes=MB)
    with serve_project(tmp_path_factory.mktemp("shop"), options=options) as project:
        yield project


@contextmanager
def limit_cost(seconds: float, memory: int) -> Iterator[None]:
    """Check that the block takes at most so much time and memory of Python."""
    tracemalloc.start()
    start = time.monotonic()
    try:
        yield
        assert time.monotonic() - start < seconds
        assert tracemalloc.get_traced_memory()[1] < memory
    finally:
        tracemalloc.stop()


def send_file(shop: ServedProject, body: bytes, media: str, **headers: str) -> httpx.Response:
    return shop.client().post("/channels/orders/blocks", content=body, headers={"Content-Type": media, **headers})


@pytest.mark.parametrize(
    ("media", "start"), [("application/x-ndjson", b'{"word": "'), ("text/csv", b"id,"), ("text/csv", b'id,word\n1,"')]
)
def test_a_line_that_is_compressed_well_is_refused(shop: ServedProject, media: str, start: bytes) -> None:
    body = gzip.compress(start + bytes(50 * MB).replace(b"\0", b"x"))
    assert len(body) < MB
    with limit_cost(30, 200 * MB):
        answer = send_file(shop, body, media, **{"Content-Encoding": "gzip"})
    assert (answer.status_code, answer.json()["error"]["kind"]) == (400, "BadInput"), answer.text
    assert len(answer.text) < 1000


def write_parquet(columns: dict[str, pa.Array], **options: Any) -> bytes:
    buffer = BytesIO()
    pq.write_table(pa.table(columns), buffer, compression="zstd", **options)
    return buffer.getvalue()


def repeat_number() -> pa.Array:
    return pa.repeat(pa.scalar(7, pa.int32()), 20_000_000)


def repeat_text() -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.repeat(pa.scalar(0, pa.int32()), 2000), ["x" * 200_000])


@pytest.mark.parametrize("build", [repeat_number, repeat_text])
def test_parquet_that_is_larger_when_decoded_is_refused(shop: ServedProject, build: Callable[[], pa.Array]) -> None:
    column = build()
    other = pa.nulls(len(column), pa.string() if build is repeat_number else pa.int32())
    columns = {"id": column, "word": other} if build is repeat_number else {"id": other, "word": column}
    body = write_parquet(columns)
    assert len(body) < 3 * MB
    before = pa.total_allocated_bytes()
    pool_peak = pa.default_memory_pool().max_memory()
    with limit_cost(30, 100 * MB):
        answer = send_file(shop, body, "application/vnd.apache.parquet")
    assert (answer.status_code, answer.json()["error"]["kind"]) == (413, "TooLarge"), answer.text
    assert pa.default_memory_pool().max_memory() < max(pool_peak, before + 400 * MB)


def test_parquet_with_repeated_texts_that_fits_is_inserted(shop: ServedProject) -> None:
    words = pa.DictionaryArray.from_arrays(pa.array([0, None, *[1] * 998], pa.int32()), ["a" * 200_000, "b"])
    body = write_parquet({"id": pa.array(range(1000), pa.int32()), "word": words})
    answer = send_file(shop, body, "application/vnd.apache.parquet")
    assert (answer.status_code, answer.json()["block"]["rows"]) == (201, 1000), answer.text
    rows = shop.client().get("/channels/orders/rows", params={"limit": 1000}).json()["rows"]
    assert Counter(len(row["word"] or "") for row in rows) == {200_000: 1, 0: 1, 1: 998}


def build_document(query: str = "SELECT id FROM clicks", columns: str = "id int") -> dict[str, Any]:
    inputs = [{"name": "clicks", "columns": columns}]
    return {"name": "web", "inputs": inputs, "tables": [{"name": "sums", "query": query}]}


def build_action(query: str) -> dict[str, Any]:
    action = {"id": 1, "name": "all", "type": "spark-sql", "query": query}
    return {"name": "w", "startActionId": 1, "endActionId": 1, "actions": [action]}


@pytest.mark.parametrize(
    ("path", "document"),
    [
        ("/workflows", build_document(f"SELECT id FROM clicks WHERE {ORS}")),
        ("/workflows", build_document(f"SELECT id FROM clicks WHERE {ORS[: 14 * 1000]} OR id = 1")),
        ("/workflows", build_document(f"SELECT {NESTED} FROM clicks")),
        ("/workflows", build_document(f"SELECT {'NOT ' * 450} id FROM clicks")),
        ("/workflows", build_document(columns="id " + "array<" * 3000 + "int" + ">" * 3000)),
        ("/submissions", build_action(f"SELECT 1 AS x WHERE {ORS}")),
    ],
)
def test_a_query_that_is_too_large_is_refused_at_once(shop: ServedProject, path: str, document: dict[str, Any]) -> None:
    start = time.monotonic()
    answer = shop.client().post(path, json=document)
    assert answer.status_code in (400, 422), answer.text
    assert time.monotonic() - start < 5


@pytest.mark.parametrize("depth", [65, 500, 900, 5000])
@pytest.mark.parametrize("path", ["/workflows", "/submissions"])
def test_a_deeply_nested_document_is_refused(shop: ServedProject, path: str, depth: int) -> None:
    body = b'{"name": ' + b'{"a": [' * depth + b"]}" * depth + b"}"
    answer = shop.client().post(path, content=body, headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.json()["error"]["kind"]) == (400, "BadInput"), answer.text


def test_a_body_that_does_not_arrive_in_time_is_refused(tmp_path: Path) -> None:
    async def send_slowly() -> AsyncIterator[bytes]:
        yield b"{"
        await asyncio.sleep(5)
        yield b"}"

    with serve_project(tmp_path, options=replace(OPTIONS, body_timeout=0.1)) as shop:
        answer = shop.client().put("/workflows/shop/priority", content=send_slowly())
    assert (answer.status_code, "did not arrive" in answer.text) == (400, True)
