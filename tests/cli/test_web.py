"""What somebody does on the page: as they may over the API, and written down like that."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi import Request
from tests.server.mill import Served, served

from tidemill.cli.web import build_viewer
from tidemill.errors import Conflict
from tidemill.model.access import UserRole
from tidemill.server.access import Caller
from tidemill.ui import Viewer
from tidemill.wire.refusals import Forbidden


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Served]:
    with served(tmp_path) as found:
        yield found


def looking(shop: Served, name: str, role: UserRole) -> Viewer:
    caller = Caller(name, role, "127.0.0.1", "t1")
    return build_viewer(shop.access, Request({"type": "http", "headers": [], "state": {"caller": caller}}))


@pytest.mark.parametrize(
    ("name", "role", "acts", "there"),
    [
        ("viewer", UserRole.VIEWER, False, False),
        ("operator", UserRole.OPERATOR, True, False),  # the shop is somebody else's
        ("owner", UserRole.OPERATOR, True, True),
        ("admin", UserRole.ADMIN, True, True),
    ],
)
def test_who_may_act_where(shop: Served, name: str, role: UserRole, acts: bool, there: bool) -> None:
    someone = looking(shop, name, role)
    assert (someone.name, someone.can_act_somewhere) == (name, acts)
    if there:
        someone.check_permission("shop")
    else:
        with pytest.raises(Forbidden):
            someone.check_permission("shop")


def test_what_belongs_to_nothing_is_the_admins(shop: Served) -> None:
    looking(shop, "admin", UserRole.ADMIN).check_permission(None)
    with pytest.raises(Forbidden):
        looking(shop, "owner", UserRole.OPERATOR).check_permission(None)


def test_what_is_done_is_written_down_with_its_outcome(shop: Served) -> None:
    someone = looking(shop, "owner", UserRole.OPERATOR)
    with someone.record_action("run words"):
        (entry,) = shop.access.accounts.list_audit_entries()
        assert (entry.user, entry.token, entry.action, entry.outcome) == ("owner", "t1", "PAGE run words", None)
    with pytest.raises(Conflict), someone.record_action("kill run 1"):
        raise Conflict("it has ended")
    assert [e.outcome for e in shop.access.accounts.list_audit_entries()] == [409, 200]
