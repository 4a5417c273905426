"""Permissions: every route of the document, called with every role."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from tests.server.mill import CSV, LOG_TEXT, OPTIONS, ROLES, ServedProject, serve_project

from tidemill.model.access import UserRole
from tidemill.server.app import PREFIX, build_api

VIEWER = ROLES.keys()
OWNER = {"owner", "author", "admin"}
AUTHOR = {"author", "admin"}
DEVELOPER = {"author", "developer", "admin"}
ADMIN = {"admin"}

ALLOWED = {
    "GET /channels": VIEWER,
    "GET /channels/{name}": VIEWER,
    "GET /channels/{name}/schema": VIEWER,
    "GET /channels/{name}/blocks": VIEWER,
    "GET /channels/{name}/rows": VIEWER,
    "GET /channels/{name}/explain": VIEWER,
    "GET /channels/{name}/lineage": VIEWER,
    "POST /channels/{name}/compact": OWNER,
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
    "GET /freshness-targets": VIEWER,
    "GET /freshness-targets/{name}": VIEWER,
    "GET /maintenance": VIEWER,
    "POST /maintenance/pause": ADMIN,
    "POST /maintenance/resume": ADMIN,
    "POST /maintenance/run": ADMIN,
    "POST /maintenance/collect": ADMIN,
    "GET /statistics": VIEWER,
    "GET /metrics": VIEWER,
    "GET /dispatching": VIEWER,
    "PUT /dispatching": ADMIN,
    "GET /workflows": VIEWER,
    "POST /workflows": AUTHOR,
    "DELETE /workflows/{name}": AUTHOR,
    "GET /plan": VIEWER,
    "POST /apply": AUTHOR,
    "POST /workflows/{name}/pause": OWNER,
    "POST /workflows/{name}/resume": OWNER,
    "PUT /workflows/{name}/priority": ADMIN,
    "GET /triggers": VIEWER,
    "GET /triggers/{trigger}": VIEWER,
    "GET /firings": VIEWER,
    "GET /servers": VIEWER,
    "POST /submissions": DEVELOPER,
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
PUBLIC = {"GET /healthz", "GET /livez"}
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
    "PUT /workflows/{name}/owners": {"owners": ["owner", "author"]},
}
EXPECTED_ERRORS = {"GET /channels/{name}/lineage": 400, "GET /freshness-targets/{name}": 404}
"""Routes that fail here even with permission, and their status: no event has a lineage tag, no table a target."""

NAMES = {"channels": "orders", "flows": "words", "workflows": "shop", "users": "guest", "freshness-targets": "words"}


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedProject]:
    with serve_project(tmp_path_factory.mktemp("shop")) as project:
        project.insert()
        project.run()
        project.client().post("/submissions", json=ONE_SHOT)
        yield project


def list_routes(shop: ServedProject) -> set[str]:
    paths = shop.app.openapi()["paths"]
    return {f"{method.upper()} {path.removeprefix(PREFIX)}" for path, methods in paths.items() for method in methods}


def call(shop: ServedProject, route: str, who: str | None) -> httpx.Response:
    method, path = route.split()
    noun = path.split("/")[1]
    run = shop.mill.catalog.runs.list(subject="words", limit=1)[0].id
    token = shop.access.accounts.issue_token("admin").token.id if "{token}" in path else ""
    name = "words" if path.endswith("/explain") else NAMES.get(noun)
    shop.access.accounts.save_user("guest", UserRole.VIEWER)
    dataset = shop.mill.catalog.datasets.list()[0].identity[:12]
    url = path.format(name=name, run=run, block=1, trigger=1, token=token, number=1, key=1, dataset=dataset)
    client = shop.client(who)
    if route == "POST /channels/{name}/blocks":
        return client.post(url, content=CSV, headers={"Content-Type": "text/csv"})
    if route == "POST /channels/{name}/events":
        headers = {"Content-Type": "application/x-ndjson", "Tidemill-Producer": f"p-{who}", "Tidemill-Number": "1"}
        return client.post(url, content=b'{"id": 1, "word": "one"}', headers=headers)
    if method == "GET":
        return client.get(url, params={"tag": "1"} if path.endswith("/lineage") else {})
    return client.request(method, url, json=BODIES.get(route))


def test_every_route_has_a_permission(shop: ServedProject) -> None:
    assert list_routes(shop) == ALLOWED.keys() | PUBLIC


@pytest.mark.parametrize("route", ALLOWED)
def test_a_route_accepts_only_the_allowed_roles(shop: ServedProject, route: str) -> None:
    assert call(shop, route, None).status_code == 401
    for who in ROLES:
        answer = call(shop, route, who)
        if who in ALLOWED[route]:
            assert answer.status_code < 400 or answer.status_code in (409, EXPECTED_ERRORS.get(route)), (
                who,
                answer.text,
            )
        else:
            assert answer.status_code == 403, (who, answer.text)
            assert answer.json()["error"]["kind"] == "Forbidden"


def test_only_those_who_may_act_on_a_run_see_its_log(shop: ServedProject) -> None:
    run = shop.mill.catalog.runs.list(subject="words", limit=1000)[-1].id
    for who in ROLES:
        logs = [shop.client(who).get(path).json()["log"] for path in (f"/runs/{run}", f"/runs/{run}/log")]
        assert [LOG_TEXT in (log or "") for log in logs] == [who in OWNER] * 2, who
        assert who in OWNER or logs == [None, None]


def test_a_developer_registers_code_only_in_workflows_that_are_free(tmp_path: Path) -> None:
    with serve_project(tmp_path) as shop:
        document = {"name": "mine", "inputs": [{"name": "clicks", "columns": "id int"}]}
        assert shop.client("operator").post("/workflows", json=document).status_code == 403
        assert shop.client("developer").post("/workflows", json=document).status_code == 200
        assert shop.client("developer").post("/apply").status_code == 403  # the project's files declare the shop
        shop.access.accounts.set_owners("shop", [])
        assert shop.client("developer").post("/apply").status_code == 200


def test_every_operator_may_run_a_workflow_without_owners(tmp_path: Path) -> None:
    with serve_project(tmp_path) as shop:
        shop.access.accounts.set_owners("shop", [])
        assert shop.client("operator").post("/flows/words/runs").status_code == 202
        assert shop.client("viewer").post("/flows/words/runs").status_code == 403


def test_runs_without_a_workflow_need_an_admin(tmp_path: Path) -> None:
    with serve_project(tmp_path) as shop:
        shop.access.accounts.set_owners("shop", [])
        run = shop.client().post("/flows/words/runs").json()["id"]
        shop.mill.catalog.workflows.apply(type(shop.mill.project.workflows[0])("shop", (), ()))
        assert shop.client("operator").post(f"/runs/{run}/kill").status_code == 403
        assert shop.client().post(f"/runs/{run}/kill").status_code == 200


def test_without_access_control_local_callers_are_admins(tmp_path: Path) -> None:
    with serve_project(tmp_path, enabled=False) as shop:
        assert shop.client(None).get("/me").json() == {"name": "local", "role": "admin", "token": None}
        assert shop.client(None).post("/apply").status_code == 200
        assert shop.client(None, "10.0.0.1").get("/me").status_code == 403
        assert shop.client("admin", "10.0.0.1").get("/me").status_code == 403


def test_an_unknown_route_needs_a_token(shop: ServedProject) -> None:
    assert shop.client(None).get("/nothing").status_code == 401
    assert shop.client(None).get("/openapi.json").status_code == 401
    assert shop.client("viewer").get("/openapi.json").status_code == 200


def test_every_possible_status_is_declared(shop: ServedProject) -> None:
    document = build_api(shop.mill, shop.access, OPTIONS).openapi()
    for path, methods in document["paths"].items():
        for method, route in methods.items():
            missing = {"401", "403", "421", "422", "500", "503"} - route["responses"].keys()
            assert not missing or path.endswith(("/healthz", "/livez")), (method, path, missing)
            schema = route["responses"].get("422", {}).get("content", {}).get("application/json", {}).get("schema", {})
            assert schema.get("$ref", "ErrorDocument").endswith("ErrorDocument")
