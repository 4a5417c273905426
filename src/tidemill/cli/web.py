"""The HTTP application of `tidemill up`: the API, and the page for people."""

import logging
from collections.abc import Callable
from functools import partial

from fastapi import Request

from tidemill.app.wiring import Tidemill
from tidemill.model.access import UserRole
from tidemill.server.access import AccessControl, Caller
from tidemill.server.app import build_access, build_application
from tidemill.server.authentication import PREFIX, audit_action
from tidemill.server.http_server import HttpListener
from tidemill.server.page_authentication import LOGOUT
from tidemill.ui.context import Viewer
from tidemill.ui.page import mount_pages

log = logging.getLogger("tidemill.server.access")


def build_listener(mill: Tidemill, wake: Callable[[], None]) -> HttpListener:
    """Build a listener that is active inside its context; `wake` is called when work may have become due."""
    access = build_access(mill)
    if access.enabled and not mill.catalog.accounts.list_tokens():
        log.warning("no token has been issued yet: tidemill access user NAME admin, then tidemill access token NAME")
    app = build_application(mill, access, wake)
    identify_viewer = partial(build_viewer, access)
    mount_pages(app, mill, identify_viewer, api_prefix=PREFIX, logout_path=LOGOUT)
    return HttpListener(app, access, mill.settings.api.host, mill.settings.api.port)


def build_viewer(access: AccessControl, request: Request) -> Viewer:
    """Build the viewer of the page, as it is now; raises `Unidentified` if its token is no longer valid.

    It has the same permissions as over the API, and its actions are audited alike.
    """
    known: Caller = request.scope["state"]["caller"]
    caller = access.identify_again(known)

    def check_permission(workflow: str | None) -> None:
        access.check_role(caller, UserRole.OPERATOR)
        access.check_workflow_access(caller, workflow)

    return Viewer(
        caller.name,
        can_act_somewhere=caller.role.covers_role(UserRole.OPERATOR),
        check_permission=check_permission,
        record_action=partial(audit_action, access.accounts, caller),
    )
