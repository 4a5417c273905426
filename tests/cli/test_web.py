"""Actions on the page need the same permissions as requests to the API, and are audited like them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi import Request
from tests.server.mill import ServedProject, serve_project

from tidemill.cli.web import build_viewer
from tidemill.errors import Conflict
from tidemill.model.access import UserRole
from tidemill.server.access import Caller
from tidemill.ui.context import Viewer
from tidemill.wire.refusals import Forbidden, Unidentified


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[ServedProject]:
    with serve_project(tmp_path) as project:
        yield project


def create_viewer(shop: ServedProject, name: str, role: UserRole) -> Viewer:
    caller = Caller(name, role, "127.0.0.1", find_token(shop, name))
    return build_viewer(shop.access, Request({"type": "http", "headers": [], "state": {"caller": caller}}))


def find_token(shop: ServedProject, name: str) -> str:
    return shop.access.accounts.list_tokens(name)[0].id


@pytest.mark.parametrize(
    ("name", "role", "acts", "allowed"),
    [
        ("viewer", UserRole.VIEWER, False, False),
        ("operator", UserRole.OPERATOR, True, False),  # another user owns the shop
        ("owner", UserRole.OPERATOR, True, True),
        ("admin", UserRole.ADMIN, True, True),
    ],
)
def test_roles_and_owners_decide_who_may_act(
    shop: ServedProject, name: str, role: UserRole, acts: bool, allowed: bool
) -> None:
    viewer = create_viewer(shop, name, role)
    assert (viewer.name, viewer.can_act_somewhere) == (name, acts)
    if allowed:
        viewer.check_permission("shop")
    else:
        with pytest.raises(Forbidden):
            viewer.check_permission("shop")


def test_actions_outside_of_workflows_need_an_admin(shop: ServedProject) -> None:
    create_viewer(shop, "admin", UserRole.ADMIN).check_permission(None)
    with pytest.raises(Forbidden):
        create_viewer(shop, "owner", UserRole.OPERATOR).check_permission(None)


def test_actions_are_audited_with_their_outcome(shop: ServedProject) -> None:
    viewer = create_viewer(shop, "owner", UserRole.OPERATOR)
    with viewer.record_action("run words"):
        (entry,) = shop.access.accounts.list_audit_entries()
        assert (entry.user, entry.token, entry.action, entry.outcome) == (
            "owner",
            find_token(shop, "owner"),
            "PAGE run words",
            None,
        )
    with pytest.raises(Conflict), viewer.record_action("kill run 1"):
        raise Conflict("it has ended")
    assert [e.outcome for e in shop.access.accounts.list_audit_entries()] == [409, 200]


def test_an_open_page_has_the_present_rights_of_its_viewer(shop: ServedProject) -> None:
    accounts = shop.access.accounts
    caller = Caller("owner", UserRole.OPERATOR, "127.0.0.1", find_token(shop, "owner"))
    request = Request({"type": "http", "headers": [], "state": {"caller": caller}})
    build_viewer(shop.access, request).check_permission("shop")
    accounts.save_user("owner", UserRole.VIEWER)
    demoted = build_viewer(shop.access, request)
    assert (demoted.can_act_somewhere, demoted.can_act("shop")) == (False, False)
    accounts.revoke_token(find_token(shop, "owner"))
    with pytest.raises(Unidentified, match="revoked"):
        build_viewer(shop.access, request)
