"""New blocks on their way out: to a real HTTP server and a real mail server, in order, until they are taken."""

from __future__ import annotations

import email.policy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.publish.test_notify import Hook, Post
from tests.publish.test_notify import hook as hook  # a fixture
from tests.server.mill import ServedProject, serve_project
from tests.server.test_sources import run_server

from tidemill.app.deliveries import build_deliveries
from tidemill.app.settings import Settings
from tidemill.encoding.block_rows import CHUNK_ROWS, RowSelection, split_into_chunks
from tidemill.publish import BlockDelivery
from tidemill.publish.webhook import sign_body


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[ServedProject]:
    with serve_project(tmp_path) as found:
        yield found


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def delivery(shop: ServedProject, clock: Clock, **said: Any) -> BlockDelivery:
    wanted = Settings.model_validate({"deliver": {"d": {"channel": "orders", **said}}}).deliver
    (made,) = build_deliveries(wanted, shop.mill.catalog, shop.mill.store.open_file, shop.mill.insert_batcher)
    made.clock = clock
    return made


def by_hook(shop: ServedProject, hook: Hook, clock: Clock, **said: Any) -> BlockDelivery:
    url = f"http://127.0.0.1:{hook.server_address[1]}/rows"
    return delivery(shop, clock, kind="webhook", url=url, secret="s3cret", **said)


def insert(shop: ServedProject, *numbers: int) -> None:
    assert shop.insert(b"id,word\n" + b"".join(b"%d,w%d\n" % (n, n) for n in numbers)).is_success


def taken(hook: Hook) -> list[tuple[str, list[int]]]:
    """The blocks that arrived, each with the numbers of its rows."""
    return [(h["Tidemill-Block"], [json.loads(r)["id"] for r in body.splitlines()[1:]]) for h, body in hook.taken]


def test_new_blocks_arrive_in_order_and_signed(shop: ServedProject, hook: Hook) -> None:
    insert(shop, 1)
    told = by_hook(shop, hook, Clock())
    told()  # what was there before is not sent
    insert(shop, 2, 3)
    insert(shop, 4)
    told(), told()
    assert taken(hook) == [("orders/2", [2, 3]), ("orders/3", [4])]
    headers, body = hook.taken[0]
    at = headers["Tidemill-Signature"].partition(",")[0].removeprefix("t=")
    assert headers["Tidemill-Signature"] == sign_body("s3cret", body, int(at))
    assert json.loads(body.splitlines()[0]) == {
        "block": 2,
        "kind": "delta",
        "updates": "append",
        "rows": 2,
        "more": False,
    }


def test_what_is_not_taken_is_tried_again_and_nothing_overtakes_it(shop: ServedProject, hook: Hook) -> None:
    clock = Clock()
    told = by_hook(shop, hook, clock)
    told()
    insert(shop, 1)
    insert(shop, 2)
    hook.status = 500
    told(), told()  # the second time it is too early
    assert taken(hook) == [("orders/1", [1])]
    hook.status = 204
    clock.now += 1.0
    told()
    assert taken(hook) == [("orders/1", [1]), ("orders/1", [1]), ("orders/2", [2])]


def test_another_server_goes_on_where_the_first_was(shop: ServedProject, hook: Hook) -> None:
    by_hook(shop, hook, Clock())()
    insert(shop, 1)
    by_hook(shop, hook, Clock())()
    insert(shop, 2)
    by_hook(shop, hook, Clock())()
    assert taken(hook) == [("orders/1", [1]), ("orders/2", [2])]


def test_large_blocks_come_in_parts_and_only_what_is_wanted(shop: ServedProject, hook: Hook) -> None:
    told = by_hook(shop, hook, Clock(), columns=["id"], where=["id >= 2"])
    told()
    insert(shop, *range(1, CHUNK_ROWS + 3))
    told()
    assert [(h["Tidemill-Part"], len(body.splitlines()) - 1) for h, body in hook.taken] == [
        ("1", CHUNK_ROWS - 1),
        ("2", 2),
    ]
    assert json.loads(hook.taken[1][1].splitlines()[-1]) == {"id": CHUNK_ROWS + 2}


def test_rows_by_mail(shop: ServedProject) -> None:
    post = Post()
    with run_server(post):
        said = {"host": "127.0.0.1", "port": post.server_address[1], "starttls": False}
        told = delivery(shop, Clock(), kind="mail", sender="m@example.org", to=["a@example.org"], **said)
        told()
        insert(shop, 1, 2)
        told(), told()
    (letter,) = (email.message_from_string(text, policy=email.policy.default) for text in post.letters)
    assert letter["Subject"] == "Tidemill: 2 new rows in orders"
    assert letter["Message-ID"] == "<orders-1-1@tidemill>"
    (attached,) = letter.iter_attachments()
    assert json.loads(attached.get_content().splitlines()[1]) == {"id": 1, "word": "w1"}


def test_what_was_collected_before_it_was_sent_is_said_to_be_missed(
    shop: ServedProject, hook: Hook, caplog: pytest.LogCaptureFixture
) -> None:
    told = by_hook(shop, hook, Clock())
    told()
    insert(shop, 1)
    insert(shop, 2)
    shop.mill.catalog.collect_blocks([b.id for b in shop.mill.catalog.list_blocks("orders") if b.seq == 1])
    told()
    insert(shop, 3)
    told()
    assert taken(hook) == [("orders/3", [3])]
    assert "d misses rows" in caplog.text


def test_what_comes_out_goes_in_again_once(shop: ServedProject, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each block is an insert into another channel, though the first time nobody hears that it was taken."""
    clock = Clock()
    back = delivery(shop, clock, kind="channel", to="stock", where=["id >= 2"])
    back()
    insert(shop, 1, 2)
    insert(shop, 1)
    insert(shop, 3)
    with monkeypatch.context() as patched:
        patched.setattr(type(shop.mill.catalog), "move_consumer_offset", _unheard)
        back()
    clock.now += 1
    back()
    blocks = [b for b in reversed(shop.mill.catalog.list_blocks("stock")) if b.rows]
    lines = [
        line
        for b in blocks
        for p in split_into_chunks(b, shop.mill.store.open_file, RowSelection())
        for line in p.lines
    ]
    assert [json.loads(line)["id"] for line in lines] == [2, 3]


def _unheard(*_: object) -> None:
    raise OSError("the place was not kept")
