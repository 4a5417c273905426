"""Compaction, garbage collection and maintenance over the API: as the commands, and recorded in the audit log."""

from __future__ import annotations

from typing import Any

import pytest
from tests.server.mill import ServedProject

from tidemill.app.maintenance import read_maintenance


@pytest.fixture
def busy(shop: ServedProject) -> ServedProject:
    for _ in range(3):
        assert shop.insert().status_code == 201
    return shop


def post(shop: ServedProject, path: str, **params: Any) -> Any:
    answer = shop.client().post(path, params=params)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_a_channel_is_compacted_once(busy: ServedProject) -> None:
    first = post(busy, "/channels/orders/compact")
    assert (first["channel"], first["block"]["kind"], first["block"]["rows"]) == ("orders", "base", 6)
    assert post(busy, "/channels/orders/compact")["block"] is None
    entry = busy.client().get("/audit", params={"limit": 1}).json()["entries"][0]
    assert (entry["user"], entry["action"], entry["outcome"]) == (
        "admin",
        "POST /api/v1/channels/orders/compact",
        200,
    )


def test_an_unknown_channel_is_not_compacted(busy: ServedProject) -> None:
    answer = busy.client().post("/channels/nothing/compact")
    assert answer.status_code == 404
    assert "no channel 'nothing'; known are orders, stock, words" in answer.text


def test_a_channel_without_data_is_not_compacted(busy: ServedProject) -> None:
    assert post(busy, "/channels/stock/compact")["block"] is None


def test_maintenance_is_paused_and_resumed(busy: ServedProject) -> None:
    state = busy.client("viewer").get("/maintenance").json()
    assert state == read_maintenance(busy.mill).to_json()
    assert (state["automatic"], state["paused"], state["active"]) == (True, False, [])
    assert {c["channel"] for c in state["channels"]} == {"orders", "stock", "words"}
    assert post(busy, "/maintenance/pause")["paused"]
    assert not busy.mill.maintenance.can_continue()
    assert not post(busy, "/maintenance/resume")["paused"]
    assert busy.mill.maintenance.can_continue()


def test_due_maintenance_is_done_on_request_also_while_paused(busy: ServedProject) -> None:
    for _ in range(10):
        busy.insert()
    post(busy, "/maintenance/pause")
    result = post(busy, "/maintenance/run")
    assert [b["channel"] for b in result["minor_compactions"] + result["major_compactions"]] == ["orders"]
    assert result["problems"] == []


def test_garbage_is_collected(busy: ServedProject) -> None:
    post(busy, "/channels/orders/compact")
    kept = post(busy, "/maintenance/collect", retain="7 days")
    assert (kept["blocks"], kept["scan"]) == (0, None)
    collected = post(busy, "/maintenance/collect", grace="0s", scan=True)
    assert (collected["blocks"] > 0, collected["files"], collected["scan"]["unknown"]) == (True, 3, 0)


@pytest.mark.parametrize("params", [{"retain": "long"}, {"grace": "soon"}])
def test_an_invalid_duration_is_rejected(busy: ServedProject, params: dict[str, str]) -> None:
    answer = busy.client().post("/maintenance/collect", params=params)
    assert answer.status_code == 400
    assert "not a duration" in answer.text
