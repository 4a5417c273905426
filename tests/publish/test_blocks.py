"""Deliveries of new blocks to a real HTTP server and a real mail server: in order, and retried until accepted."""

from __future__ import annotations

import email.policy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.publish.test_notify import MailServer, WebhookServer
from tests.publish.test_notify import hook as hook  # a fixture
from tests.server.mill import ServedProject, serve_project
from tests.server.test_sources import run_server

from tidemill.app.serving import build_deliveries
from tidemill.app.settings import Settings
from tidemill.encoding.block_rows import CHUNK_ROWS, RowSelection, split_into_chunks
from tidemill.publish.blocks import BlockDelivery
from tidemill.publish.webhook import sign_body


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[ServedProject]:
    with serve_project(tmp_path) as project:
        yield project


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def build_delivery(shop: ServedProject, clock: Clock, **options: Any) -> BlockDelivery:
    settings = Settings.model_validate({"deliver": {"d": {"channel": "orders", **options}}}).deliver
    (delivery,) = build_deliveries(settings, shop.mill.catalog, shop.mill.store.open_file, shop.mill.insert_batcher)
    delivery.clock = clock
    return delivery


def build_webhook_delivery(shop: ServedProject, hook: WebhookServer, clock: Clock, **options: Any) -> BlockDelivery:
    url = f"http://127.0.0.1:{hook.server_address[1]}/rows"
    return build_delivery(shop, clock, kind="webhook", url=url, secret="s3cret", **options)


def insert(shop: ServedProject, *numbers: int) -> None:
    assert shop.insert(b"id,word\n" + b"".join(b"%d,w%d\n" % (n, n) for n in numbers)).is_success


def list_received(hook: WebhookServer) -> list[tuple[str, list[int]]]:
    """The received blocks, each with the ids of its rows."""
    return [(h["Tidemill-Block"], [json.loads(r)["id"] for r in body.splitlines()[1:]]) for h, body in hook.received]


def test_new_blocks_arrive_in_order_and_signed(shop: ServedProject, hook: WebhookServer) -> None:
    insert(shop, 1)
    deliver = build_webhook_delivery(shop, hook, Clock())
    deliver()  # earlier blocks are not sent
    insert(shop, 2, 3)
    insert(shop, 4)
    deliver(), deliver()
    assert list_received(hook) == [("orders/2", [2, 3]), ("orders/3", [4])]
    headers, body = hook.received[0]
    timestamp = headers["Tidemill-Signature"].partition(",")[0].removeprefix("t=")
    assert headers["Tidemill-Signature"] == sign_body("s3cret", body, int(timestamp))
    assert json.loads(body.splitlines()[0]) == {
        "block": 2,
        "kind": "delta",
        "updates": "append",
        "rows": 2,
        "more": False,
    }


def test_a_rejected_block_is_retried_before_later_blocks(shop: ServedProject, hook: WebhookServer) -> None:
    clock = Clock()
    deliver = build_webhook_delivery(shop, hook, clock)
    deliver()
    insert(shop, 1)
    insert(shop, 2)
    hook.status = 500
    deliver(), deliver()  # the second attempt is too early
    assert list_received(hook) == [("orders/1", [1])]
    hook.status = 204
    clock.now += 1.0
    deliver()
    assert list_received(hook) == [("orders/1", [1]), ("orders/1", [1]), ("orders/2", [2])]


def test_another_server_continues_after_the_last_delivered_block(shop: ServedProject, hook: WebhookServer) -> None:
    build_webhook_delivery(shop, hook, Clock())()
    insert(shop, 1)
    build_webhook_delivery(shop, hook, Clock())()
    insert(shop, 2)
    build_webhook_delivery(shop, hook, Clock())()
    assert list_received(hook) == [("orders/1", [1]), ("orders/2", [2])]


def test_large_blocks_are_filtered_and_sent_in_parts(shop: ServedProject, hook: WebhookServer) -> None:
    deliver = build_webhook_delivery(shop, hook, Clock(), columns=["id"], where=["id >= 2"])
    deliver()
    insert(shop, *range(1, CHUNK_ROWS + 3))
    deliver()
    assert [(h["Tidemill-Part"], len(body.splitlines()) - 1) for h, body in hook.received] == [
        ("1", CHUNK_ROWS - 1),
        ("2", 2),
    ]
    assert json.loads(hook.received[1][1].splitlines()[-1]) == {"id": CHUNK_ROWS + 2}


def test_rows_are_sent_by_mail(shop: ServedProject) -> None:
    mail_server = MailServer()
    with run_server(mail_server):
        server = {"host": "127.0.0.1", "port": mail_server.server_address[1], "starttls": False}
        deliver = build_delivery(shop, Clock(), kind="mail", sender="m@example.org", to=["a@example.org"], **server)
        deliver()
        insert(shop, 1, 2)
        deliver(), deliver()
    (message,) = (email.message_from_string(text, policy=email.policy.default) for text in mail_server.messages)
    assert message["Subject"] == "Tidemill: 2 new rows in orders"
    assert message["Message-ID"] == "<orders-1-1@tidemill>"
    (attachment,) = message.iter_attachments()
    assert json.loads(attachment.get_content().splitlines()[1]) == {"id": 1, "word": "w1"}


def test_blocks_collected_before_delivery_are_reported_as_missed(
    shop: ServedProject, hook: WebhookServer, caplog: pytest.LogCaptureFixture
) -> None:
    deliver = build_webhook_delivery(shop, hook, Clock())
    deliver()
    insert(shop, 1)
    insert(shop, 2)
    shop.mill.catalog.blocks.collect([b.id for b in shop.mill.catalog.blocks.list("orders") if b.seq == 1])
    deliver()
    insert(shop, 3)
    deliver()
    assert list_received(hook) == [("orders/3", [3])]
    assert "d misses rows" in caplog.text


def test_blocks_are_delivered_to_another_channel_once(shop: ServedProject, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each block is inserted into another channel once, although the first acknowledgement is lost."""
    clock = Clock()
    deliver = build_delivery(shop, clock, kind="channel", to="stock", where=["id >= 2"])
    deliver()
    insert(shop, 1, 2)
    insert(shop, 1)
    insert(shop, 3)
    with monkeypatch.context() as patch:
        patch.setattr(type(shop.mill.catalog.events), "move_consumer_offset", _fail)
        deliver()
    clock.now += 1
    deliver()
    blocks = [b for b in reversed(shop.mill.catalog.blocks.list("stock")) if b.rows]
    lines = [
        line
        for b in blocks
        for p in split_into_chunks(b, shop.mill.store.open_file, RowSelection())
        for line in p.lines
    ]
    assert [json.loads(line)["id"] for line in lines] == [2, 3]


def _fail(*_: object) -> None:
    raise OSError("the offset was not stored")
