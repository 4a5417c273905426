"""What somebody does on the page: as they may over the API, and written down like that."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi import Request
from tests.server.mill import Served, served

from tidemill.cli.web import viewer
from tidemill.errors import Conflict
from tidemill.model.access import Role
from tidemill.server.access import Caller
from tidemill.ui import Viewer
from tidemill.wire.refusals import Forbidden


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Served]:
    with served(tmp_path) as found:
        yield found


def looking(shop: Served, name: str, role: Role) -> Viewer:
    caller = Caller(name, role, "127.0.0.1", "t1")
    return viewer(shop.access, Request({"type": "http", "headers": [], "state": {"caller": caller}}))


@pytest.mark.parametrize(
    ("name", "role", "acts", "there"),
    [
        ("viewer", Role.VIEWER, False, False),
        ("operator", Role.OPERATOR, True, False),  # the shop is somebody else's
        ("owner", Role.OPERATOR, True, True),
        ("admin", Role.ADMIN, True, True),
    ],
)
def test_who_may_act_where(shop: Served, name: str, role: Role, acts: bool, there: bool) -> None:
    someone = looking(shop, name, role)
    assert (someone.name, someone.acts) == (name, acts)
    if there:
        someone.permit("shop")
    else:
        with pytest.raises(Forbidden):
            someone.permit("shop")


def test_what_belongs_to_nothing_is_the_admins(shop: Served) -> None:
    looking(shop, "admin", Role.ADMIN).permit(None)
    with pytest.raises(Forbidden):
        looking(shop, "owner", Role.OPERATOR).permit(None)


def test_what_is_done_is_written_down_with_its_outcome(shop: Served) -> None:
    someone = looking(shop, "owner", Role.OPERATOR)
    with someone.recorded("run words"):
        (entry,) = shop.access.accounts.entries()
        assert (entry.user, entry.token, entry.action, entry.outcome) == ("owner", "t1", "PAGE run words", None)
    with pytest.raises(Conflict), someone.recorded("kill run 1"):
        raise Conflict("it has ended")
    assert [e.outcome for e in shop.access.accounts.entries()] == [409, 200]
