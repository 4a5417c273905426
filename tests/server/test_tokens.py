"""Tokens over the API: shown once, rejected when invalid, and never logged."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.server.mill import OPTIONS, Caller, ServedProject, serve_project

from tidemill.model.access import UserRole
from tidemill.server.access import AccessControl, Throttle
from tidemill.server.app import build_api
from tidemill.wire.refusals import TooManyFailures


@dataclass
class FakeClock:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


def call_with_token(shop: ServedProject, text: str) -> Caller:
    return Caller(shop.app, {"Authorization": f"Bearer {text}"})


def test_a_token_is_issued_used_and_revoked(shop: ServedProject) -> None:
    admin = shop.client()
    assert admin.put("/users/ann", json={"role": "viewer"}).json()["role"] == "viewer"
    issued = admin.post("/users/ann/tokens", json={"label": "laptop", "seconds": 3600})
    assert issued.status_code == 201
    secret, number = issued.json()["secret"], issued.json()["token"]["id"]
    assert secret.startswith(f"tdm_{number}_")
    assert call_with_token(shop, secret).get("/me").json() == {"name": "ann", "role": "viewer", "token": number}
    assert secret.split("_")[2] not in admin.get("/tokens").text
    assert admin.delete(f"/tokens/{number}").json()["revoked"] is not None
    rejected = call_with_token(shop, secret).get("/me")
    assert rejected.status_code == 401
    assert rejected.headers["www-authenticate"].startswith("Bearer")
    assert secret not in rejected.text


def test_a_removed_user_is_rejected(shop: ServedProject) -> None:
    assert shop.client().delete("/users/viewer").status_code == 204
    assert shop.client("viewer").get("/me").status_code == 401
    assert shop.client().delete("/users/viewer").status_code == 404
    assert "viewer" not in [u["name"] for u in shop.client().get("/users").json()["users"]]


@pytest.mark.parametrize("header", ["", "Bearer", "Bearer x", "Basic YTpi", "Bearer tdm_000000000000_" + "0" * 64])
def test_an_invalid_token_is_rejected(shop: ServedProject, header: str) -> None:
    answer = Caller(shop.app, {"Authorization": header}).get("/me")
    assert (answer.status_code, answer.json()["error"]["kind"]) == (401, "Unidentified")


def test_a_changed_role_applies_to_existing_tokens(shop: ServedProject) -> None:
    shop.client().put("/users/viewer", json={"role": "admin"})
    assert shop.client("viewer").get("/users").status_code == 200


def test_wrong_tokens_are_throttled_and_valid_ones_accepted(tmp_path: Path) -> None:
    clock = FakeClock()
    with serve_project(tmp_path) as shop:
        access = AccessControl(shop.access.accounts, enabled=True, throttle=Throttle(clock, max_failures=3))
        shop.app = build_api(shop.mill, access, OPTIONS)
        for _ in range(3):
            assert call_with_token(shop, "wrong").get("/me").status_code == 401
            clock.now += 10
        rejected = call_with_token(shop, "wrong").get("/me")
        assert (rejected.status_code, rejected.headers["retry-after"]) == (429, "30")
        assert shop.client().get("/me").status_code == 200
        assert shop.client(None).get("/me").status_code == 401
        clock.now += 30
        assert call_with_token(shop, "wrong").get("/me").status_code == 401


def test_the_number_of_remembered_addresses_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidemill.server.access._REMEMBERED", 2)
    throttle = Throttle(FakeClock(), max_failures=1)
    for address in ("192.0.2.1", "192.0.2.2", "192.0.2.3"):
        throttle.record_failure(address)
    throttle.check_address("192.0.2.1")
    with pytest.raises(TooManyFailures):
        throttle.check_address("192.0.2.3")


def test_addresses_of_one_network_are_counted_together() -> None:
    throttle = Throttle(FakeClock(), max_failures=1)
    throttle.record_failure("2001:db8::1")
    with pytest.raises(TooManyFailures):
        throttle.check_address("2001:db8::2")
    throttle.check_address("2001:db8:0:1::2")


def test_changes_are_audited_and_reads_are_not(shop: ServedProject) -> None:
    shop.client("owner").post("/workflows/shop/pause")
    shop.client("operator").post("/workflows/shop/pause")
    shop.client().get("/status")
    shop.client(None).post("/apply")
    entries = shop.client().get("/audit").json()["entries"]
    assert [(e["user"], e["role"], e["action"], e["outcome"]) for e in entries] == [
        ("operator", "operator", "POST /api/v1/workflows/shop/pause", 403),
        ("owner", "operator", "POST /api/v1/workflows/shop/pause", 200),
    ]
    assert entries[0]["address"] == "127.0.0.1"
    assert entries[0]["token"] == shop.tokens["operator"].split("_")[1]
    assert shop.client().get("/audit", params={"before": entries[0]["id"]}).json()["entries"] == entries[1:]


def test_a_change_that_cannot_be_audited_is_not_made(shop: ServedProject, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> int:
        raise OSError("disk full at /secret/path")

    monkeypatch.setattr(shop.access.accounts, "record_audit", fail)
    answer = shop.client().post("/workflows/shop/pause")
    assert answer.status_code == 500
    assert "secret" not in answer.text
    assert [w.paused for w in shop.mill.catalog.workflows.list()] == [False]


def test_a_failed_change_is_audited_with_its_outcome(shop: ServedProject, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shop.mill, "apply", lambda: 1 / 0)
    assert shop.client().post("/apply").status_code == 500
    assert shop.access.accounts.list_audit_entries()[0].outcome == 500


def test_no_secret_is_logged(shop: ServedProject, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        issued = shop.access.accounts.issue_token("admin")
        call_with_token(shop, issued.text).get("/me")
        call_with_token(shop, issued.text[:-1]).get("/me")
        shop.client().post("/users/viewer/tokens", json={})
    for secret in (issued.text.split("_")[2], *(t.split("_")[2] for t in shop.tokens.values())):
        assert secret[:20] not in caplog.text
    assert issued.text not in repr(issued)


def test_owners_must_be_users(shop: ServedProject) -> None:
    assert shop.client().put("/workflows/shop/owners", json={"owners": ["stranger"]}).status_code == 404
    assert shop.client().put("/workflows/shop/owners", json={"owners": ["operator"]}).json() == {"owners": ["operator"]}
    assert shop.client().get("/workflows/shop/owners").json() == {"owners": ["operator"]}
    assert shop.client("owner").post("/workflows/shop/pause").status_code == 403
    assert UserRole("operator") in {u.role for u in shop.access.accounts.list_users()}
