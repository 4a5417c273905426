"""Uploads: formats, encodings, keys, and limits that hold while data comes in."""

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
from tests.server.mill import CSV, OPTIONS, Served, state

from tidemill.client import Client
from tidemill.model.block import BlockKind
from tidemill.model.identity import compute_identity
from tidemill.model.run import ClaimRequest, ReservationRequest, Run, RunKind, RunOutcome, WrittenBlock
from tidemill.server.http_server import HttpListener
from tidemill.wire import schemas

ROWS = pa.table({"id": pa.array([1, 2], pa.int32()), "word": ["one", "two"]})


def lines() -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in ROWS.to_pylist())


def parquet() -> bytes:
    out = io.BytesIO()
    pq.write_table(ROWS, out)
    return out.getvalue()


def arrow(file: bool = False) -> bytes:
    out = io.BytesIO()
    with (pa.ipc.new_file if file else pa.ipc.new_stream)(out, ROWS.schema) as writer:
        writer.write_table(ROWS)
    return out.getvalue()


FORMATS = {
    "text/csv": CSV,
    "text/csv; charset=utf-8": CSV,
    "application/x-ndjson": lines(),
    "application/vnd.apache.parquet": parquet(),
    "application/vnd.apache.arrow.stream": arrow(),
    "application/vnd.apache.arrow.file": arrow(file=True),
}


async def slowly(body: bytes, size: int = 1000) -> AsyncIterator[bytes]:
    """Without a length that is known before."""
    for at in range(0, len(body), size):
        yield body[at : at + size]


def words(shop: Served) -> list[str]:
    return sorted(r["word"] for r in shop.client().get("/channels/orders/rows").json()["rows"])


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("media", FORMATS)
def test_every_format_by_its_type(shop: Served, media: str, packed: bool) -> None:
    headers = {"Content-Type": media} | ({"Content-Encoding": "gzip"} if packed else {})
    body = gzip.compress(FORMATS[media]) if packed else FORMATS[media]
    answer = shop.client().post("/channels/orders/blocks", content=slowly(body, 7), headers=headers)
    assert answer.status_code == 201, answer.text
    assert words(shop) == ["one", "two"]


def test_the_format_may_be_said(shop: Served) -> None:
    answer = shop.client().post("/channels/orders/blocks", params={"format": "jsonl"}, content=lines())
    assert answer.status_code == 201


@pytest.mark.parametrize("media", ["", "image/png", "multipart/form-data; boundary=x", "application/json"])
def test_other_types_are_refused(shop: Served, media: str) -> None:
    answer = shop.client().post("/channels/orders/blocks", content=CSV, headers={"Content-Type": media})
    assert (answer.status_code, answer.json()["error"]["kind"]) == (415, "UnknownFormat")


def test_other_encodings_are_refused(shop: Served) -> None:
    assert shop.insert(Content_Encoding="br").status_code == 415


def test_a_key_inserts_once(shop: Served) -> None:
    first = shop.insert(Idempotency_Key="monday")
    again = shop.insert(Idempotency_Key="monday")
    assert (first.status_code, again.status_code) == (201, 200)
    assert again.json() == {"block": first.json()["block"], "repeated": True}
    assert words(shop) == ["one", "two"]


def test_many_small_ones_share_blocks_and_each_has_its_answer(shop: Served) -> None:
    with HttpListener(shop.app, shop.access, port=0) as at, Client(at.url, shop.tokens["owner"]) as client:

        def one(number: int) -> schemas.InsertDocument:
            return client.insert("orders", [{"id": number, "word": f"w{number}"}], key=f"k{number}")

        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(one, range(24)))
        assert [a.repeated for a in answers] == [False] * 24
        assert len(client.rows("orders", limit=100).rows) == 24
        assert [one(n).repeated for n in range(3)] == [True] * 3
    entries = shop.access.accounts.list_audit_entries()
    assert [e.outcome for e in entries] == [200] * 3 + [201] * 24


@pytest.mark.parametrize("size", [1, 1000])
def test_a_bad_row_is_its_own_senders_trouble(shop: Served, size: int) -> None:
    answer = shop.insert(b"id,word\n" + b"1,one\n" * size + b"x,two\n")
    assert answer.json()["error"]["message"].startswith(f"the upload: row {size + 1}, column 'id'")


def test_a_whole_content_replaces_what_was_there(shop: Served) -> None:
    shop.insert()
    params = {"kind": "base", "format": "csv"}
    assert shop.client().post("/channels/orders/blocks", params=params, content=b"id,word\n3,three\n").is_success
    assert words(shop) == ["three"]


def test_derived_channels_are_not_inserted_into(shop: Served) -> None:
    answer = shop.insert(channel="words")
    assert (answer.status_code, answer.json()["error"]["kind"]) == (400, "BadInput")


def test_bad_rows_are_told_without_the_servers_paths(shop: Served) -> None:
    answer = shop.insert(b"id,word\n" + b"x,one\n" * 1000)
    assert answer.status_code == 400
    message = answer.json()["error"]["message"]
    assert message.startswith("the upload: row 1, column 'id': expected INT")
    run = shop.mill.catalog.list_runs(limit=1)[0]
    kept = shop.client().get(f"/runs/{run.id}").text
    for told in (answer.text, kept):
        assert tempfile.gettempdir() not in told
        assert str(shop.mill.directory) not in told


def oversized() -> bytes:
    return b"id,word\n" + b"1,one\n" * OPTIONS.max_upload_bytes


@pytest.mark.parametrize("declared", [True, False])
def test_too_much_is_refused_and_changes_nothing(shop: Served, declared: bool) -> None:
    before = state(shop.mill)
    body = oversized()
    answer = shop.client().post(
        "/channels/orders/blocks", content=body if declared else slowly(body), headers={"Content-Type": "text/csv"}
    )
    assert (answer.status_code, answer.json()["error"]["kind"]) == (413, "TooLarge")
    assert state(shop.mill) == before
    assert shop.mill.catalog.list_runs() == []


@pytest.mark.parametrize("members", [1, 3])
def test_a_bomb_is_counted_as_it_unpacks(shop: Served, members: int) -> None:
    bomb = gzip.compress(b"1,one\n" * 10_000_000 if members == 1 else b"1,one\n" * 7_000) * members
    assert len(bomb) < OPTIONS.max_upload_bytes
    answer = shop.insert(bomb, Content_Encoding="gzip")
    assert answer.status_code == 413
    assert shop.mill.catalog.list_runs() == []


def test_broken_gzip_is_refused(shop: Served) -> None:
    for broken in (b"no gzip", gzip.compress(CSV)[:-4], gzip.compress(CSV) + b"rest"):
        answer = shop.insert(broken, Content_Encoding="gzip")
        assert (answer.status_code, answer.json()["error"]["kind"]) == (400, "BadInput")


@pytest.mark.parametrize("media", [m for m in FORMATS if "apache" in m])
def test_damage_is_refused_and_nothing_is_left(
    shop: Served, media: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before, whole = state(shop.mill), FORMATS[media]
    damaged = [whole[: len(whole) // 2], b"", b"ARROW1", b"PAR1", whole[:8] + random.Random(1).randbytes(len(whole))]
    damaged += [whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :] for at in range(0, len(whole), 37)]
    for body in damaged:
        answer = shop.client().post("/channels/orders/blocks", content=body, headers={"Content-Type": media})
        assert answer.status_code in (201, 400), answer.text
        if answer.status_code == 201:  # what was hit does not matter to what it holds
            before = state(shop.mill)
        assert state(shop.mill) == before
    assert list(tmp_path.glob("tidemill-upload-*")) == []


def test_arrow_is_limited_by_what_it_holds(shop: Served) -> None:
    out = io.BytesIO()
    table = pa.table({"id": pa.array([1] * 15_000, pa.int32()), "word": ["one"] * 15_000})
    with pa.ipc.new_stream(out, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(table)
    assert len(out.getvalue()) < OPTIONS.max_upload_bytes
    media = {"Content-Type": "application/vnd.apache.arrow.stream"}
    answer = shop.client().post("/channels/orders/blocks", content=out.getvalue(), headers=media)
    assert answer.status_code == 413


def test_an_insert_under_a_key_that_another_server_uses_waits_for_it(
    shop: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = shop.mill.catalog
    demand = ClaimRequest(reservations=(ReservationRequest(None, "orders", BlockKind.DELTA, ("k",)),))
    claim = catalog.claim_new_run(RunKind.INSERT, "orders", demand, owner="another", lease=30.0)
    (slot,) = claim.reservations.values()

    def reclaim() -> list[Run]:  # the other server comes to its end meanwhile
        schema = catalog.read_channel("orders").channel.schema
        assert schema is not None
        catalog.commit_run(claim, RunOutcome((WrittenBlock(slot, schema, (), compute_identity("theirs")),)))
        return []

    monkeypatch.setattr(catalog, "reclaim_expired_runs", reclaim)
    answer = shop.insert(Idempotency_Key="k")
    assert (answer.status_code, answer.json()["repeated"]) == (200, True)


def test_an_insert_that_waits_in_vain_may_be_repeated(shop: Served) -> None:
    demand = ClaimRequest(reservations=(ReservationRequest(None, "orders", BlockKind.DELTA, ("k",)),))
    shop.mill.catalog.claim_new_run(RunKind.INSERT, "orders", demand, owner="another", lease=30.0)
    shop.mill.executor = replace(shop.mill.executor, busy_timeout=-1.0)
    answer = shop.insert(Idempotency_Key="k")
    assert answer.status_code == 503
    assert answer.json()["error"]["kind"] == "InsertUnderWay"
