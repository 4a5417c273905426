"""The audit log of changes by the page and by commands."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.server.mill import serve_project

from tidemill.app.auditing import audit_change
from tidemill.errors import CatalogError, NotFound
from tidemill.model.access import AuditStart

START = AuditStart("ann", None, "this machine", "COMMAND tidemill pause workflow=shop")


def test_a_failed_change_is_recorded_with_its_status(tmp_path: Path) -> None:
    with serve_project(tmp_path) as shop:
        with pytest.raises(NotFound), audit_change(shop.access.accounts, START):
            raise NotFound("there is no such workflow")
        assert [e.outcome for e in shop.access.accounts.list_audit_entries()] == [404]


def test_a_change_succeeds_although_its_outcome_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_notes: object) -> list[int]:
        raise CatalogError("the catalog is locked")

    with serve_project(tmp_path) as shop, audit_change(shop.access.accounts, START):
        monkeypatch.setattr(shop.access.accounts, "record_audit", fail)
    assert "could not be written: the catalog is locked" in caplog.text


def test_a_change_that_cannot_be_recorded_is_not_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_notes: object) -> list[int]:
        raise CatalogError("the catalog is locked")

    with serve_project(tmp_path) as shop:
        monkeypatch.setattr(shop.access.accounts, "record_audit", fail)
        with pytest.raises(CatalogError), audit_change(shop.access.accounts, START):
            pytest.fail("the change was made")
