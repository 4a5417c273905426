"""The client against a listening server: every method, every error, and broken streams."""

from __future__ import annotations

import datetime as dt
import gzip
import inspect
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest
from tests.server.mill import CSV, OPTIONS, ServedProject, serve_project
from tests.server.test_roles import ALLOWED, ONE_SHOT, PUBLIC

from tidemill.app.wiring import Tidemill
from tidemill.client import Client
from tidemill.errors import BadInput, Conflict, NotFound, TidemillError, WorkflowError
from tidemill.server.http_server import HttpListener
from tidemill.wire.refusals import Forbidden, TooLarge, Unidentified, Unreachable, build_error
from tidemill.wire.upload_client import build_upload


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedProject]:
    with serve_project(tmp_path_factory.mktemp("shop"), options=replace(OPTIONS, stream_seconds=60.0)) as project:
        yield project


@pytest.fixture(scope="module")
def url(shop: ServedProject) -> Iterator[str]:
    with HttpListener(shop.app, shop.access, port=0) as listener:
        yield listener.url


@pytest.fixture
def client(shop: ServedProject, url: str) -> Iterator[Client]:
    with Client(url, shop.tokens["admin"]) as project:
        yield project


def test_there_is_a_method_for_every_route() -> None:
    public = {n for n, _ in inspect.getmembers(Client, inspect.isfunction) if not n.startswith("_")} - {"close"}
    routes = len(ALLOWED | dict.fromkeys(PUBLIC))
    assert len(public - {"subscribe"}) == routes - 1  # `blocks` serves two routes; `subscribe` uses a socket


@pytest.mark.parametrize("method", ["collect", "compact"])
def test_the_client_names_parameters_as_a_project_does(method: str) -> None:
    project, client = (set(inspect.signature(getattr(kind, method)).parameters) for kind in (Tidemill, Client))
    assert project <= client


def test_every_method_that_reads(client: Client, shop: ServedProject) -> None:
    inserted = client.insert("orders", [{"id": 7, "word": "seven"}])
    run = shop.run()
    assert client.health().status == "ok"
    assert {c.name for c in client.channels()} == {c.name for c in client.status().channels}
    assert client.staleness().tables[0].now == 0.0
    assert client.channel("orders").columns == client.schema("orders")
    assert "seven" in [r["word"] for r in client.rows("words", limit=1000).rows]
    assert client.explain("words") == client.explain_flow("words")[0]
    assert client.blocks("orders")[0] == client.block(inserted.block.id) == client.trace(inserted.block.id).block
    assert client.blocks(limit=1)[0].run == run
    assert inserted.block.id in client.pin_block(inserted.block.id).retained_blocks
    assert client.block(inserted.block.id).pinned
    assert not client.unpin_block(inserted.block.id).block.pinned
    assert client.flows() == [client.flow("words")]
    assert client.runs(kind="flow", limit=1)[0] == client.run(run).run
    assert client.log(run) == client.run(run).log
    assert client.past_events(run=run)[-1].run == run
    assert (client.plan(), client.apply()) == ([], [])
    assert [w.name for w in client.workflows()] == ["shop"]
    assert [t.flow for t in client.triggers("words")] == ["words"]
    assert client.trigger(client.triggers()[0].id) == client.triggers()[0]
    assert (client.firings(), client.servers()) == ([], [])
    assert client.freshness_targets() == []
    with pytest.raises(NotFound, match="channel 'words' has no freshness target; declare one with target_lag="):
        client.freshness_target("words")
    assert client.me().name == "admin"


def test_every_method_that_changes_something(client: Client, shop: ServedProject, url: str) -> None:
    requested = client.request_run("words")
    assert client.kill(requested.id).state == "killed"
    assert client.kill(client.retry(requested.id).id).state == "killed"
    added = client.register({"name": "town", "inputs": [{"name": "visits", "columns": "city string"}]})
    assert [s.name for s in added] == ["visits"]
    client.remove("town")
    assert client.pause("shop").paused
    assert not client.resume("shop").paused
    assert client.prioritise("shop", 3).priority == 3
    client.save_user("bob", "operator")
    issued = client.issue_token("bob", label="script", seconds=60)
    assert client.set_owners("shop", ["bob", "owner"]) == client.owners("shop") == ["bob", "owner"]
    with Client(url, issued.secret) as bob:
        assert bob.me().token == issued.token.id
        assert client.revoke_token(issued.token.id).revoked is not None
        with pytest.raises(Unidentified):
            bob.me()
    assert issued.token.id in [t.id for t in client.tokens()]
    client.remove_user("bob")
    assert "bob" not in [u.name for u in client.users()]
    newest = client.audit(limit=1)[0]
    assert (newest.action, newest.outcome) == ("DELETE /api/v1/users/bob", 204)


def test_every_method_that_maintains(client: Client) -> None:
    for number in (20, 21):
        client.insert("stock", [{"id": number, "word": "w"}])
    compacted = client.compact("stock")
    assert compacted is not None
    assert (compacted.kind, client.compact("stock")) == ("base", None)
    assert client.collect(retain="7 days").blocks == 0
    assert client.pause_maintenance() == client.maintenance()
    assert client.maintenance().paused
    assert not client.resume_maintenance().paused
    assert client.run_maintenance().problems == []


def test_one_shot_workflows_are_submitted_and_explained(client: Client) -> None:
    submission = client.submit(ONE_SHOT)
    assert (submission.state, submission.user, [a.verdict for a in submission.actions]) == ("ready", "admin", ["new"])
    assert client.submissions(limit=1) == [client.submission(submission.id)]
    assert (
        client.explain_action(submission.id, 1) == client.explain_action(submission.id, "all") == submission.actions[0]
    )
    assert client.submit(ONE_SHOT).actions[0].verdict == "awaited"
    (day,) = client.history(workflow="words", user="admin")
    assert (day.submissions, day.actions, day.hits, day.computed) == (2, 2, 1, 0)
    assert client.history(user="stranger") == []
    assert (client.storage().retained, client.storage().budget) == ([], None)
    first = submission.actions[0].identity
    assert client.pin(first).pinned
    assert not client.unpin(first).pinned
    newest = client.audit(limit=1)[0]
    assert (newest.action, newest.outcome) == (f"POST /api/v1/datasets/{first}/unpin", 200)
    with pytest.raises(WorkflowError, match="/startActionId: there is no action with id 7"):
        client.submit(ONE_SHOT | {"startActionId": 7})
    with pytest.raises(WorkflowError, match="/actions/0: .*gone.py cannot be read"):
        client.submit(ONE_SHOT | {"actions": [{"id": 1, "name": "a", "type": "pyspark-script", "script": "gone.py"}]})
    with pytest.raises(WorkflowError, match="/actions/0: module 'nowhere' cannot be imported"):
        call = {"id": 1, "name": "a", "type": "python-function", "function": "nowhere:f"}
        client.submit(ONE_SHOT | {"actions": [call]})
    with pytest.raises(NotFound, match="there is no action 'x'"):
        client.explain_action(submission.id, "x")


def test_the_format_of_a_file_follows_from_its_name(client: Client, tmp_path: Path) -> None:
    plain, packed, no_suffix = tmp_path / "a.csv", tmp_path / "b.CSV.gz", tmp_path / "c"
    plain.write_bytes(CSV)
    packed.write_bytes(gzip.compress(CSV))
    no_suffix.write_bytes(CSV)
    assert client.insert("orders", plain).block.rows == 2
    assert client.insert("orders", str(packed), key="b").block.rows == 2
    assert client.insert("orders", packed, key="b").repeated
    assert client.insert("orders", no_suffix, format="csv", kind="base").block.kind == "base"
    with pytest.raises(BadInput, match="format of"):
        client.insert("orders", no_suffix)
    with pytest.raises(BadInput, match="cannot read"):
        client.insert("orders", tmp_path / "none.csv")
    with pytest.raises(BadInput, match="a object cannot be sent"):
        client.insert("orders", [{"id": 1, "word": object()}])
    assert client.insert("stock", ({"id": n, "word": dt.date(2026, 5, n)} for n in (1, 2))).block.rows == 2


def test_errors_of_the_server_are_raised_by_their_kind(client: Client, shop: ServedProject, url: str) -> None:
    with pytest.raises(NotFound, match=r"no channel 'nope'; known are orders, stock, words"):
        client.channel("nope")
    with pytest.raises(BadInput, match="the upload: row 1"):
        client.insert("orders", [{"id": "x"}])
    killed = client.kill(client.request_run("words").id)
    with pytest.raises(Conflict, match="only a run that has not ended"):
        client.kill(killed.id)
    with pytest.raises(TooLarge):
        client.insert("orders", ({"id": 1, "word": "x" * 1000} for _ in range(1000)))
    with Client(url, shop.tokens["viewer"]) as viewer, pytest.raises(Forbidden, match="needs the role operator"):
        viewer.request_run("words")
    with Client(url) as stranger, pytest.raises(Unidentified):
        list(stranger.events())
    assert build_error("Unheard", "of") is not None
    assert isinstance(build_error("WorkflowError", "a.py:1: no"), WorkflowError)
    assert type(build_error("Unheard", "of")) is TidemillError


def test_an_unreachable_server_is_retried_and_reported(client: Client) -> None:
    pauses: list[float] = []
    with Client("http://127.0.0.1:9", timeout=5.0, sleep=pauses.append) as nowhere:
        with pytest.raises(Unreachable, match="does not answer"):
            nowhere.status()
        with pytest.raises(Unreachable):
            next(nowhere.events())
    assert pauses == [0.5, 1.0, 2.0, 4.0, 8.0]


def test_events_are_streamed_as_they_happen(client: Client, shop: ServedProject) -> None:
    stream = client.events(after=shop.mill.catalog.events.list(limit=10_000)[-1].id)
    client.pause("shop")
    assert next(stream).kind == "workflow.paused"
    client.resume("shop")
    assert next(stream).kind == "workflow.resumed"
    stream.close()


def test_a_broken_stream_continues_without_a_gap(tmp_path: Path) -> None:
    pauses: list[float] = []
    with serve_project(tmp_path, options=replace(OPTIONS, stream_seconds=60.0)) as shop:
        every = [e.id for e in shop.mill.catalog.events.list(limit=1000)]
        with HttpListener(shop.app, shop.access, port=0) as first:
            client = Client(first.url, shop.tokens["viewer"], sleep=pauses.append)
            stream = client.events(after=0)
            seen = [e.id for e in islice(stream, len(every) - 1)]
            port = int(first.url.rsplit(":", 1)[1])
        shop.app.state.ending = False
        shop.mill.catalog.workflows.set_paused("shop", paused=True)
        with HttpListener(shop.app, shop.access, port=port), client:
            seen += [e.id for e in islice(stream, 2)]
            stream.close()
    assert seen == [*every, every[-1] + 1]


def test_a_stream_that_ends_is_reopened(tmp_path: Path) -> None:
    with (
        serve_project(tmp_path, options=replace(OPTIONS, stream_seconds=0.0)) as shop,
        HttpListener(shop.app, shop.access, port=0) as listener,
    ):
        every = [e.id for e in shop.mill.catalog.events.list(limit=1000)]
        with Client(listener.url, shop.tokens["viewer"]) as client:
            stream = client.events(after=0)
            seen = [e.id for e in islice(stream, len(every))]
            shop.mill.catalog.workflows.set_paused("shop", paused=True)
            seen.append(next(stream).id)
            stream.close()
    assert seen == [*every, every[-1] + 1]


def test_a_table_object_is_rejected() -> None:
    for table in (pd.DataFrame({"id": [1]}), pa.table({"id": [1]}), 7):
        with pytest.raises(BadInput, match=r"expected the path of a file, or rows as mappings, found a"):
            build_upload(table)  # type: ignore[arg-type]
