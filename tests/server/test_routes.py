"""Every route with valid requests; its documents equal those of the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.server.mill import CSV, ServedProject

import tidemill as tm
from tidemill.app import inspection
from tidemill.app.serving import build_server_loop
from tidemill.errors import BadInput
from tidemill.model.health import EngineHealth
from tidemill.runtime.inspect.block_trace import trace_block
from tidemill.wire import schemas, server_schemas


def get(shop: ServedProject, path: str, **params: Any) -> Any:
    answer = shop.client().get(path, params=params)
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.fixture
def busy(shop: ServedProject) -> ServedProject:
    """After an insert and a run."""
    assert shop.insert().status_code == 201
    shop.run()
    return shop


def test_the_status_equals_that_of_the_command_line(busy: ServedProject) -> None:
    for every in (True, False):
        now = inspection.read_service_status(busy.mill.catalog, {}, every=every)
        assert get(busy, "/status", all=every) == schemas.StatusDocument.model_validate(now).to_json()


def test_staleness_grows_while_blocks_are_pending(busy: ServedProject) -> None:
    assert [t["now"] for t in get(busy, "/staleness")["tables"]] == [0.0]
    busy.insert()
    document = get(busy, "/staleness", minutes=5)
    (table,) = document["tables"]
    assert table["table"] == "words"
    assert 0 < table["now"] < 300
    assert table["points"][-1]["seconds"] == pytest.approx(table["now"], abs=0.01)
    assert document["total"]["points"][-1] == table["points"][-1]
    assert get(busy, "/staleness", measure="age")["tables"][0]["now"] >= table["now"]


def test_channels_are_listed_and_described(busy: ServedProject) -> None:
    names = [c["name"] for c in get(busy, "/channels")["channels"]]
    assert names == ["orders", "stock", "words"]
    assert get(busy, "/channels/orders")["compaction"] == "not due: nothing to merge"
    one = get(busy, "/channels/orders")["channel"]
    assert (one["rows"], one["workflow"], one["role"]) == (2, "shop", "input")
    assert get(busy, "/channels/orders/schema")["schema"][0] == {"name": "id", "type": "INT", "nullable": True}


def test_blocks_are_listed_and_traced(busy: ServedProject) -> None:
    document = get(busy, "/channels/orders/blocks")["blocks"]
    assert [b["seq"] for b in document] == [1, 0]
    newest = busy.mill.catalog.blocks.read(document[0]["id"])
    assert document[0] == schemas.BlockDocument.model_validate(newest).to_json() == get(busy, f"/blocks/{newest.id}")
    assert len(get(busy, "/blocks", limit=1)["blocks"]) == 1
    assert len(get(busy, f"/blocks/{newest.id}/trace", depth=5)["derivations"]) == 1
    assert busy.client().get(f"/blocks/{newest.id}/trace", params={"depth": 101}).status_code == 422
    assert (
        get(busy, f"/blocks/{newest.id}/trace")
        == schemas.TraceDocument.model_validate(trace_block(busy.mill.catalog, newest.id)).to_json()
    )


def test_only_events_with_lineage_tags_have_a_lineage(busy: ServedProject) -> None:
    answer = busy.client().get("/channels/words/lineage", params={"tag": "17.1!"})
    assert answer.status_code == 400
    assert "have no lineage tags" in answer.text
    assert busy.client().get("/channels/words/lineage", params={"tag": "17.'"}).status_code == 422


def test_rows_are_read_at_the_head_and_as_of_a_version(busy: ServedProject) -> None:
    assert get(busy, "/channels/words/rows", limit=1)["more"] is True
    document = get(busy, "/channels/words/rows")
    assert sorted(r["word"] for r in document["rows"]) == ["one", "two"]
    assert document["more"] is False
    assert get(busy, "/channels/words/rows", as_of="0")["rows"] == []
    assert get(busy, "/channels/words/rows", as_of="2000-01-01T00:00:00+01:00")["rows"] == []
    for as_of, message in (("99", "its head is at 1"), ("2999-01-01", "is in the future")):
        rejected = busy.client().get("/channels/words/rows", params={"as_of": as_of})
        assert rejected.status_code == 400
        assert message in rejected.text
        with pytest.raises(BadInput, match=message):
            busy.mill.content("words", as_of)


def test_flows_are_listed_and_explained(busy: ServedProject) -> None:
    (flow,) = get(busy, "/flows")["flows"]
    assert get(busy, "/flows/words")["flow"] == flow
    assert (flow["name"], flow["last_run"]["state"]) == ("words", "finished")
    (table,) = get(busy, "/flows/words/explain")["tables"]
    assert table == get(busy, "/channels/words/explain")
    assert table["writers"][0]["flow"] == "words"


def test_a_requested_run_waits_for_a_server(shop: ServedProject) -> None:
    answer = shop.client().post("/flows/words/runs")
    assert (answer.status_code, answer.json()["state"]) == (202, "ready")
    assert [r.id for r in shop.mill.catalog.runs.list_runnable()] == [answer.json()["id"]]


def test_a_run_is_killed_and_retried(shop: ServedProject) -> None:
    client = shop.client()
    first = client.post("/flows/words/runs").json()["id"]
    assert client.post(f"/runs/{first}/retry").status_code == 409
    assert client.post(f"/runs/{first}/kill").json()["state"] == "killed"
    assert client.post(f"/runs/{first}/kill").status_code == 409
    again = client.post(f"/runs/{first}/retry")
    assert again.status_code == 202
    assert again.json()["id"] != first


def test_only_runs_of_flows_are_retried(shop: ServedProject) -> None:
    run = shop.insert().json()["block"]["run"]
    answer = shop.client().post(f"/runs/{run}/retry")
    assert answer.status_code == 409
    assert "insert" in answer.json()["error"]["message"]


def test_runs_are_listed_in_pages(shop: ServedProject) -> None:
    runs = [shop.insert().json()["block"]["run"] for _ in range(3)]
    runs.append(shop.run())
    first = [r["id"] for r in get(shop, "/runs", limit=2)["runs"]]
    rest = [r["id"] for r in get(shop, "/runs", limit=2, before=first[-1])["runs"]]
    assert first + rest == runs[::-1]
    assert [r["id"] for r in get(shop, "/runs", kind="flow")["runs"]] == runs[-1:]
    assert get(shop, "/runs", state="failed")["runs"] == []
    assert len(get(shop, "/runs", subject="orders", state="finished")["runs"]) == 3


def test_one_run_is_shown_with_its_log(busy: ServedProject) -> None:
    run = get(busy, "/runs", kind="flow")["runs"][0]["id"]
    document = get(busy, f"/runs/{run}")
    assert document["run"] == schemas.RunDocument.model_validate(busy.mill.catalog.runs.read(run)).to_json()
    assert [b["channel"] for b in document["blocks"]] == ["words"]
    assert document["reads"][0]["channel"] == "orders"
    assert get(busy, f"/runs/{run}/log") == {"run": run, "log": document["log"]}


def test_events_are_listed_after_an_offset_or_newest(busy: ServedProject) -> None:
    every = busy.mill.catalog.events.list(limit=1000)
    assert get(busy, "/events", after=0, limit=1000)["events"] == [
        schemas.EventDocument.model_validate(e).to_json() for e in every
    ]
    assert [e["id"] for e in get(busy, "/events", limit=2)["events"]] == [e.id for e in every[-2:]]
    run = every[-1].run
    assert {e["run"] for e in get(busy, "/events", run=run)["events"]} == {run}


def test_events_are_streamed_after_the_last_received_event(busy: ServedProject) -> None:
    every = busy.mill.catalog.events.list(limit=1000)
    answer = busy.client().get("/events/stream", headers={"Last-Event-ID": str(every[-3].id)})
    assert answer.headers["content-type"].startswith("text/event-stream")
    ids = [line.removeprefix("id: ") for line in answer.text.splitlines() if line.startswith("id: ")]
    assert ids == [str(e.id) for e in every[-3:]]
    assert f"event: {every[-1].kind}" in answer.text
    assert "data:" not in busy.client().get("/events/stream").text  # nothing happened since


def test_a_plan_without_changes_is_empty(shop: ServedProject, tmp_path: Path) -> None:
    assert get(shop, "/plan") == {"steps": [], "infeasible_targets": []}
    assert shop.client().post("/apply").json() == {"steps": [], "infeasible_targets": []}


def test_a_document_is_registered_and_removed(shop: ServedProject) -> None:
    table = {"name": "counts", "query": "SELECT city, count(*) AS n FROM visits GROUP BY city"}
    document = {"name": "town", "inputs": [{"name": "visits", "columns": "city string"}], "tables": [table]}
    first = shop.client().post("/workflows", json=document)
    assert first.status_code == 200, first.text
    assert ("add", "channel", "visits") in [(s["action"], s["what"], s["name"]) for s in first.json()["steps"]]
    assert shop.client().post("/workflows", json=document).json() == {"steps": []}
    assert shop.client().post("/channels/visits/blocks?format=csv", content=b"city\nUlm\n").status_code == 201
    assert shop.client().delete("/workflows/town").status_code == 204
    assert "visits" not in [c["name"] for c in get(shop, "/channels")["channels"]]
    assert shop.client().delete("/workflows/shop").status_code == 409  # a file declares it


@pytest.mark.parametrize("query", ["DROP TABLE visits", "SELECT * FROM parquet.`/etc/passwd`", "SELECT ${x}", "no SQL"])
def test_a_document_with_an_invalid_query_is_rejected(shop: ServedProject, query: str) -> None:
    document = {"name": "town", "tables": [{"name": "t", "query": query}]}
    answer = shop.client().post("/workflows", json=document)
    assert (answer.status_code, answer.json()["error"]["kind"]) == (422, "WorkflowError")
    assert [w.name for w in shop.mill.catalog.workflows.list()] == ["shop"]


def test_workflows_are_paused_resumed_and_prioritised(shop: ServedProject) -> None:
    client = shop.client()
    assert [w["name"] for w in get(shop, "/workflows")["workflows"]] == ["shop"]
    assert client.post("/workflows/shop/pause").json()["paused"] is True
    assert client.post("/workflows/shop/resume").json()["paused"] is False
    assert client.put("/workflows/shop/priority", json={"priority": 7}).json()["priority"] == 7
    (document,) = shop.mill.catalog.workflows.list()
    assert get(shop, "/workflows")["workflows"] == [server_schemas.WorkflowDocument.model_validate(document).to_json()]


def test_triggers_firings_and_servers_are_listed(shop: ServedProject) -> None:
    shop.insert()
    loop = build_server_loop(shop.mill, "up")
    assert shop.mill.catalog.servers.record_heartbeat(loop.server, lease=5.0)
    for leaf in shop.mill.catalog.triggers.list_due():
        shop.mill.catalog.triggers.fire(leaf)
    catalog = shop.mill.catalog
    assert get(shop, "/triggers")["triggers"] == [
        server_schemas.TriggerDocument.model_validate(t).to_json() for t in catalog.triggers.list()
    ]
    assert get(shop, "/firings", flow="words")["firings"] == [
        server_schemas.FiringDocument.model_validate(f).to_json() for f in catalog.triggers.list_firings()
    ]
    assert len(get(shop, "/firings")["firings"]) == 1
    assert get(shop, "/servers")["servers"] == [
        server_schemas.ServerDocument.model_validate(s).to_json() for s in catalog.servers.list()
    ]


def test_one_trigger_is_shown(shop: ServedProject) -> None:
    (trigger,) = get(shop, "/triggers")["triggers"]
    assert get(shop, f"/triggers/{trigger['id']}") == trigger
    answer = shop.client().get("/triggers/999")
    assert answer.status_code == 404
    assert "there is no trigger 999; list them with: tidemill triggers" in answer.text


def test_freshness_targets_are_listed_and_shown(shop: ServedProject) -> None:
    wf = tm.Workflow("targets")
    wf.input("visits", "city string")
    wf.table("cities", "city string")
    wf.sql("cities", "SELECT DISTINCT city FROM visits", target_lag="1 minute", consistency="2 hours")
    shop.mill.catalog.workflows.apply(wf.build_spec())
    one = get(shop, "/freshness-targets/cities")
    assert get(shop, "/freshness-targets")["freshness_targets"] == [one]
    assert (one["channel"], one["workflow"], one["lag"], one["consistency"]) == ("cities", "targets", {"*": 60}, 7200)
    assert (one["is_late"], one["is_inconsistent"]) == (False, False)
    assert get(shop, "/channels/cities")["channel"]["freshness_target"].items() <= one.items()
    for name, problem in (("visits", "has no freshness target"), ("nothing", "no channel 'nothing'")):
        answer = shop.client().get(f"/freshness-targets/{name}")
        assert answer.status_code == 404
        assert problem in answer.text


def test_the_health_check_needs_no_token(shop: ServedProject) -> None:
    client = shop.client(None)
    for path in ("/healthz", "/livez", "http://10.0.0.1/healthz", "http://10.0.0.1/livez"):
        assert client.get(path).json() == {"status": "ok", "reason": None}


def test_a_server_that_lost_its_engine_is_unhealthy(shop: ServedProject, monkeypatch: pytest.MonkeyPatch) -> None:
    lost = EngineHealth("the Java process 4711 exited")
    monkeypatch.setattr(shop.mill.engine, "report_health", lambda: lost)
    answer = shop.client(None).get("/healthz")
    assert answer.status_code == 503
    assert answer.json()["error"] == {
        "kind": "EngineLost",
        "message": "Spark cannot be used just now; the server's log says why",
    }
    alive = shop.client(None).get("/livez")
    assert (alive.status_code, alive.json()["status"]) == (200, "degraded")
    assert "4711" not in alive.text


def test_a_degraded_server_serves_and_says_why(shop: ServedProject, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shop.mill.engine, "report_health", lambda: EngineHealth(degradation="it was lost twice"))
    answer = shop.client(None).get("/healthz")
    assert (answer.status_code, answer.json()) == (200, {"status": "degraded", "reason": "it was lost twice"})


def test_inserted_rows_can_be_read(shop: ServedProject) -> None:
    answer = shop.insert(CSV)
    assert answer.status_code == 201
    block = shop.mill.catalog.blocks.read(answer.json()["block"]["id"])
    assert answer.json() == {"block": schemas.BlockDocument.model_validate(block).to_json(), "repeated": False}
    assert len(get(shop, "/channels/orders/rows")["rows"]) == 2


def test_requests_wake_the_server(shop: ServedProject) -> None:
    woken: list[str] = []
    shop.app.state.wake = lambda: woken.append("!")
    shop.insert()
    shop.client().post("/flows/words/runs")
    assert len(woken) == 2
