"""Uploads: formats, encodings, idempotency keys, and limits that are checked while data arrives."""

from __future__ import annotations

import gzip
import io
import json
import random
import tempfile
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.server.mill import CSV, OPTIONS, ServedProject, read_state

from tidemill.client import Client
from tidemill.model.block import BlockKind
from tidemill.model.identity import compute_identity
from tidemill.model.run import ClaimRequest, ReservationRequest, Run, RunKind, RunOutcome, WrittenBlock
from tidemill.server.http_server import HttpListener
from tidemill.wire import schemas

ROWS = pa.table({"id": pa.array([1, 2], pa.int32()), "word": ["one", "two"]})


def encode_lines() -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in ROWS.to_pylist())


def encode_parquet() -> bytes:
    out = io.BytesIO()
    pq.write_table(ROWS, out)
    return out.getvalue()


def encode_arrow(file: bool = False) -> bytes:
    out = io.BytesIO()
    with (pa.ipc.new_file if file else pa.ipc.new_stream)(out, ROWS.schema) as writer:
        writer.write_table(ROWS)
    return out.getvalue()


FORMATS = {
    "text/csv": CSV,
    "text/csv; charset=utf-8": CSV,
    "application/x-ndjson": encode_lines(),
    "application/vnd.apache.parquet": encode_parquet(),
    "application/vnd.apache.arrow.stream": encode_arrow(),
    "application/vnd.apache.arrow.file": encode_arrow(file=True),
}


async def send_in_chunks(body: bytes, size: int = 1000) -> AsyncIterator[bytes]:
    """Send the body without declaring its length."""
    for at in range(0, len(body), size):
        yield body[at : at + size]


def read_words(shop: ServedProject) -> list[str]:
    return sorted(r["word"] for r in shop.client().get("/channels/orders/rows").json()["rows"])


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("media", FORMATS)
def test_every_format_is_recognised_by_its_media_type(shop: ServedProject, media: str, compressed: bool) -> None:
    headers = {"Content-Type": media} | ({"Content-Encoding": "gzip"} if compressed else {})
    body = gzip.compress(FORMATS[media]) if compressed else FORMATS[media]
    answer = shop.client().post("/channels/orders/blocks", content=send_in_chunks(body, 7), headers=headers)
    assert answer.status_code == 201, answer.text
    assert read_words(shop) == ["one", "two"]


def test_the_format_may_be_given(shop: ServedProject) -> None:
    answer = shop.client().post("/channels/orders/blocks", params={"format": "jsonl"}, content=encode_lines())
    assert answer.status_code == 201


@pytest.mark.parametrize("media", ["", "image/png", "multipart/form-data; boundary=x", "application/json"])
def test_other_media_types_are_rejected(shop: ServedProject, media: str) -> None:
    answer = shop.client().post("/channels/orders/blocks", content=CSV, headers={"Content-Type": media})
    assert (answer.status_code, answer.json()["error"]["kind"]) == (415, "UnknownFormat")


def test_other_encodings_are_rejected(shop: ServedProject) -> None:
    assert shop.insert(Content_Encoding="br").status_code == 415


def test_an_idempotency_key_inserts_once(shop: ServedProject) -> None:
    first = shop.insert(Idempotency_Key="monday")
    again = shop.insert(Idempotency_Key="monday")
    assert (first.status_code, again.status_code) == (201, 200)
    assert again.json() == {"block": first.json()["block"], "repeated": True}
    assert read_words(shop) == ["one", "two"]


def test_small_inserts_share_blocks_and_each_has_its_answer(shop: ServedProject) -> None:
    with HttpListener(shop.app, shop.access, port=0) as listener, Client(listener.url, shop.tokens["owner"]) as client:

        def insert_one(number: int) -> schemas.InsertDocument:
            return client.insert("orders", [{"id": number, "word": f"w{number}"}], key=f"k{number}")

        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(insert_one, range(24)))
        assert [a.repeated for a in answers] == [False] * 24
        assert len(client.rows("orders", limit=100).rows) == 24
        assert [insert_one(n).repeated for n in range(3)] == [True] * 3
    entries = shop.access.accounts.list_audit_entries()
    assert [e.outcome for e in entries] == [200] * 3 + [201] * 24


@pytest.mark.parametrize("size", [1, 1000])
def test_a_bad_row_is_reported_to_its_sender(shop: ServedProject, size: int) -> None:
    answer = shop.insert(b"id,word\n" + b"1,one\n" * size + b"x,two\n")
    assert answer.json()["error"]["message"].startswith(f"the upload: row {size + 1}, column 'id'")


def test_a_base_replaces_the_content(shop: ServedProject) -> None:
    shop.insert()
    params = {"kind": "base", "format": "csv"}
    assert shop.client().post("/channels/orders/blocks", params=params, content=b"id,word\n3,three\n").is_success
    assert read_words(shop) == ["three"]


def test_an_insert_into_a_derived_channel_is_rejected(shop: ServedProject) -> None:
    answer = shop.insert(channel="words")
    assert (answer.status_code, answer.json()["error"]["kind"]) == (400, "BadInput")


def test_errors_of_bad_rows_contain_no_server_paths(shop: ServedProject) -> None:
    answer = shop.insert(b"id,word\n" + b"x,one\n" * 1000)
    assert answer.status_code == 400
    message = answer.json()["error"]["message"]
    assert message.startswith("the upload: row 1, column 'id': expected INT")
    run = shop.mill.catalog.runs.list(limit=1)[0]
    stored = shop.client().get(f"/runs/{run.id}").text
    for text in (answer.text, stored):
        assert tempfile.gettempdir() not in text
        assert str(shop.mill.directory) not in text


def build_oversized_body() -> bytes:
    return b"id,word\n" + b"1,one\n" * OPTIONS.max_upload_bytes


@pytest.mark.parametrize("declared", [True, False])
def test_an_oversized_upload_is_rejected_and_changes_nothing(shop: ServedProject, declared: bool) -> None:
    before = read_state(shop.mill)
    body = build_oversized_body()
    answer = shop.client().post(
        "/channels/orders/blocks",
        content=body if declared else send_in_chunks(body),
        headers={"Content-Type": "text/csv"},
    )
    assert (answer.status_code, answer.json()["error"]["kind"]) == (413, "TooLarge")
    assert read_state(shop.mill) == before
    assert shop.mill.catalog.runs.list() == []


@pytest.mark.parametrize("members", [1, 3])
def test_a_decompression_bomb_is_rejected(shop: ServedProject, members: int) -> None:
    bomb = gzip.compress(b"1,one\n" * 10_000_000 if members == 1 else b"1,one\n" * 7_000) * members
    assert len(bomb) < OPTIONS.max_upload_bytes
    answer = shop.insert(bomb, Content_Encoding="gzip")
    assert answer.status_code == 413
    assert shop.mill.catalog.runs.list() == []


def test_invalid_gzip_is_rejected(shop: ServedProject) -> None:
    for broken in (b"no gzip", gzip.compress(CSV)[:-4], gzip.compress(CSV) + b"rest"):
        answer = shop.insert(broken, Content_Encoding="gzip")
        assert (answer.status_code, answer.json()["error"]["kind"]) == (400, "BadInput")


@pytest.mark.parametrize("media", [m for m in FORMATS if "apache" in m])
def test_damaged_files_are_rejected_and_removed(
    shop: ServedProject, media: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before, whole = read_state(shop.mill), FORMATS[media]
    damaged = [whole[: len(whole) // 2], b"", b"ARROW1", b"PAR1", whole[:8] + random.Random(1).randbytes(len(whole))]
    damaged += [whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :] for at in range(0, len(whole), 37)]
    for body in damaged:
        answer = shop.client().post("/channels/orders/blocks", content=body, headers={"Content-Type": media})
        assert answer.status_code in (201, 400), answer.text
        if answer.status_code == 201:  # the changed byte does not affect the rows
            before = read_state(shop.mill)
        assert read_state(shop.mill) == before
    assert list(tmp_path.glob("tidemill-*/*")) == []


def test_compressed_arrow_is_limited_by_its_uncompressed_size(shop: ServedProject) -> None:
    out = io.BytesIO()
    table = pa.table({"id": pa.array([1] * 15_000, pa.int32()), "word": ["one"] * 15_000})
    with pa.ipc.new_stream(out, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(table)
    assert len(out.getvalue()) < OPTIONS.max_upload_bytes
    media = {"Content-Type": "application/vnd.apache.arrow.stream"}
    answer = shop.client().post("/channels/orders/blocks", content=out.getvalue(), headers=media)
    assert answer.status_code == 413


def test_an_insert_waits_for_another_server_that_uses_its_key(
    shop: ServedProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = shop.mill.catalog
    request = ClaimRequest(reservations=(ReservationRequest(None, "orders", BlockKind.DELTA, ("k",)),))
    claim = catalog.runs.claim_new(RunKind.INSERT, "orders", request, owner="another", lease=30.0)
    (reservation,) = claim.reservations.values()

    def reclaim() -> list[Run]:  # the other server commits meanwhile
        schema = catalog.channels.read("orders").channel.schema
        assert schema is not None
        catalog.runs.commit(claim, RunOutcome((WrittenBlock(reservation, schema, (), compute_identity("theirs")),)))
        return []

    monkeypatch.setattr(catalog.runs, "reclaim_expired", reclaim)
    answer = shop.insert(Idempotency_Key="k")
    assert (answer.status_code, answer.json()["repeated"]) == (200, True)


def test_an_insert_that_times_out_may_be_repeated(shop: ServedProject) -> None:
    request = ClaimRequest(reservations=(ReservationRequest(None, "orders", BlockKind.DELTA, ("k",)),))
    shop.mill.catalog.runs.claim_new(RunKind.INSERT, "orders", request, owner="another", lease=30.0)
    shop.mill.executor = replace(shop.mill.executor, busy_timeout=-1.0)
    answer = shop.insert(Idempotency_Key="k")
    assert answer.status_code == 503
    assert answer.json()["error"]["kind"] == "InsertInProgress"
