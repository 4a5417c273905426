"""The HTTP application of `tidemill up`: the API, and the page for people."""

from collections.abc import Callable
from functools import partial

from fastapi import Request

from tidemill.app.wiring import Tidemill
from tidemill.model.access import UserRole
from tidemill.server.access import AccessControl, Caller
from tidemill.server.app import build_access, build_application
from tidemill.server.authentication import audit_action
from tidemill.server.http_server import HttpListener
from tidemill.ui.context import Viewer
from tidemill.ui.page import mount_pages


def build_listener(mill: Tidemill, wake: Callable[[], None]) -> HttpListener:
    """Build a listener that is active inside its context; `wake` is called when work may have become due."""
    access = build_access(mill)
    app = build_application(mill, access, wake)
    mount_pages(app, mill, lambda request: build_viewer(access, request))
    return HttpListener(app, access, mill.settings.api.host, mill.settings.api.port)


def build_viewer(access: AccessControl, request: Request) -> Viewer:
    """Build the viewer of the page: it has the same permissions as over the API, and its actions are audited alike."""
    caller: Caller = request.scope["state"]["caller"]

    def check_permission(workflow: str | None) -> None:
        access.check_role(caller, UserRole.OPERATOR)
        access.check_workflow_access(caller, workflow)

    return Viewer(
        caller.name,
        can_act_somewhere=caller.role.covers_role(UserRole.OPERATOR),
        check_permission=check_permission,
        record_action=partial(audit_action, access.accounts, caller),
    )
