"""Who may do what: every route of the document, by everyone who may call."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from tests.server.mill import CSV, OPTIONS, Served, served

from tidemill.model.access import UserRole
from tidemill.server.app import PREFIX, build_api

VIEWER = {"viewer", "owner", "operator", "admin"}
OWNER = {"owner", "admin"}
ADMIN = {"admin"}

ALLOWED = {
    "GET /channels": VIEWER,
    "GET /channels/{name}": VIEWER,
    "GET /channels/{name}/schema": VIEWER,
    "GET /channels/{name}/blocks": VIEWER,
    "GET /channels/{name}/rows": VIEWER,
    "GET /channels/{name}/explain": VIEWER,
    "GET /channels/{name}/lineage": VIEWER,
    "POST /channels/{name}/blocks": OWNER,
    "POST /channels/{name}/events": OWNER,
    "GET /flows": VIEWER,
    "GET /flows/{name}": VIEWER,
    "GET /flows/{name}/explain": VIEWER,
    "POST /flows/{name}/runs": OWNER,
    "GET /runs": VIEWER,
    "GET /runs/{run}": VIEWER,
    "GET /runs/{run}/log": VIEWER,
    "POST /runs/{run}/kill": OWNER,
    "POST /runs/{run}/retry": OWNER,
    "GET /blocks": VIEWER,
    "GET /blocks/{block}": VIEWER,
    "GET /blocks/{block}/trace": VIEWER,
    "GET /events": VIEWER,
    "GET /events/stream": VIEWER,
    "GET /status": VIEWER,
    "GET /staleness": VIEWER,
    "GET /statistics": VIEWER,
    "GET /metrics": VIEWER,
    "GET /dispatching": VIEWER,
    "PUT /dispatching": ADMIN,
    "GET /workflows": VIEWER,
    "POST /workflows": OWNER,
    "DELETE /workflows/{name}": OWNER,
    "GET /plan": VIEWER,
    "POST /apply": ADMIN,
    "POST /workflows/{name}/pause": OWNER,
    "POST /workflows/{name}/resume": OWNER,
    "PUT /workflows/{name}/priority": ADMIN,
    "GET /triggers": VIEWER,
    "GET /firings": VIEWER,
    "GET /servers": VIEWER,
    "POST /submissions": ADMIN,
    "GET /submissions": VIEWER,
    "GET /submissions/{number}": VIEWER,
    "GET /submissions/{number}/actions/{key}": VIEWER,
    "GET /history": VIEWER,
    "GET /storage": VIEWER,
    "POST /datasets/{dataset}/pin": ADMIN,
    "POST /datasets/{dataset}/unpin": ADMIN,
    "POST /blocks/{block}/pin": ADMIN,
    "POST /blocks/{block}/unpin": ADMIN,
    "GET /me": VIEWER,
    "GET /users": ADMIN,
    "PUT /users/{name}": ADMIN,
    "DELETE /users/{name}": ADMIN,
    "POST /users/{name}/tokens": ADMIN,
    "GET /tokens": ADMIN,
    "DELETE /tokens/{token}": ADMIN,
    "GET /workflows/{name}/owners": ADMIN,
    "PUT /workflows/{name}/owners": ADMIN,
    "GET /audit": ADMIN,
}
ANYONE = {"GET /healthz"}
ONE_SHOT = {
    "name": "words",
    "startActionId": 1,
    "endActionId": 1,
    "actions": [{"id": 1, "name": "all", "type": "spark-sql", "query": "SELECT 1 AS x"}],
}
BODIES = {
    "POST /workflows": {"name": "shop"},
    "PUT /workflows/{name}/priority": {"priority": 1},
    "PUT /dispatching": {"policy": "edf"},
    "POST /submissions": ONE_SHOT,
    "PUT /users/{name}": {"role": "viewer"},
    "POST /users/{name}/tokens": {"label": "x"},
    "PUT /workflows/{name}/owners": {"owners": ["owner"]},
}
UNFIT = {"GET /channels/{name}/lineage": 400}
"""Of what there is here this cannot be asked, by those who may: no event has a tag."""

NAMES = {"channels": "orders", "flows": "words", "workflows": "shop", "users": "somebody"}


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("shop")) as found:
        found.insert()
        found.run()
        found.client().post("/submissions", json=ONE_SHOT)
        yield found


def routes(shop: Served) -> set[str]:
    paths = shop.app.openapi()["paths"]
    return {f"{method.upper()} {path.removeprefix(PREFIX)}" for path, known in paths.items() for method in known}


def call(shop: Served, route: str, who: str | None) -> httpx.Response:
    method, path = route.split()
    noun = path.split("/")[1]
    run = shop.mill.catalog.list_runs(subject="words", limit=1)[0].id
    token = shop.access.accounts.issue_token("admin").token.id if "{token}" in path else ""
    name = "words" if path.endswith("/explain") else NAMES.get(noun)
    shop.access.accounts.save_user("somebody", UserRole.VIEWER)
    dataset = shop.mill.oneshot_service.dataset_catalog.list_datasets()[0].identity[:12]
    where = path.format(name=name, run=run, block=1, token=token, number=1, key=1, dataset=dataset)
    client = shop.client(who)
    if route == "POST /channels/{name}/blocks":
        return client.post(where, content=CSV, headers={"Content-Type": "text/csv"})
    if route == "POST /channels/{name}/events":
        headers = {"Content-Type": "application/x-ndjson", "Tidemill-Producer": f"p-{who}", "Tidemill-Number": "1"}
        return client.post(where, content=b'{"id": 1, "word": "one"}', headers=headers)
    if method == "GET":
        return client.get(where, params={"tag": "1"} if path.endswith("/lineage") else {})
    return client.request(method, where, json=BODIES.get(route))


def test_every_route_says_who_may(shop: Served) -> None:
    assert routes(shop) == ALLOWED.keys() | ANYONE


@pytest.mark.parametrize("route", ALLOWED)
def test_a_route_lets_in_whom_it_should(shop: Served, route: str) -> None:
    assert call(shop, route, None).status_code == 401
    for who in ("viewer", "operator", "owner", "admin"):
        answer = call(shop, route, who)
        if who in ALLOWED[route]:
            assert answer.status_code < 400 or answer.status_code in (409, UNFIT.get(route)), (who, answer.text)
        else:
            assert answer.status_code == 403, (who, answer.text)
            assert answer.json()["error"]["kind"] == "Forbidden"


def test_what_nobody_owns_is_every_operators(tmp_path: Path) -> None:
    with served(tmp_path) as shop:
        shop.access.accounts.set_owners("shop", [])
        assert shop.client("operator").post("/flows/words/runs").status_code == 202
        assert shop.client("viewer").post("/flows/words/runs").status_code == 403


def test_what_belongs_to_no_workflow_is_the_admins(tmp_path: Path) -> None:
    with served(tmp_path) as shop:
        shop.access.accounts.set_owners("shop", [])
        run = shop.client().post("/flows/words/runs").json()["id"]
        shop.mill.catalog.apply_workflow(type(shop.mill.project.workflows[0])("shop", (), ()))
        assert shop.client("operator").post(f"/runs/{run}/kill").status_code == 403
        assert shop.client().post(f"/runs/{run}/kill").status_code == 200


def test_without_access_control_whoever_is_here_may_do_all(tmp_path: Path) -> None:
    with served(tmp_path, enabled=False) as shop:
        assert shop.client(None).get("/me").json() == {"name": "local", "role": "admin", "token": None}
        assert shop.client(None).post("/apply").status_code == 200
        assert shop.client(None, "10.0.0.1").get("/me").status_code == 403
        assert shop.client("admin", "10.0.0.1").get("/me").status_code == 403


def test_an_unknown_address_needs_a_token_too(shop: Served) -> None:
    assert shop.client(None).get("/nothing").status_code == 401
    assert shop.client(None).get("/openapi.json").status_code == 401
    assert shop.client("viewer").get("/openapi.json").status_code == 200


def test_every_answer_that_can_be_given_is_declared(shop: Served) -> None:
    document = build_api(shop.mill, shop.access, OPTIONS).openapi()
    for path, known in document["paths"].items():
        for method, route in known.items():
            missing = {"401", "403", "421", "422", "500", "503"} - route["responses"].keys()
            assert not missing or path.endswith("/healthz"), (method, path, missing)
            schema = route["responses"].get("422", {}).get("content", {}).get("application/json", {}).get("schema", {})
            assert schema.get("$ref", "ErrorDocument").endswith("ErrorDocument")
