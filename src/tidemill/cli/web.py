"""What `tidemill up` offers on its address: the API, and the page for people."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from fastapi import Request

from tidemill.app.wiring import Tidemill
from tidemill.model.access import Role
from tidemill.server.access import Access, Caller
from tidemill.server.authentication import recorded
from tidemill.server.http_server import Listener
from tidemill.server.wiring import access_of, application
from tidemill.ui.page import mount
from tidemill.ui.viewer import Viewer


def listener(mill: Tidemill, wake: Callable[[], None]) -> Listener:
    """Listens while it is entered; `wake` is called when something may have become due."""
    access = access_of(mill)
    app = application(mill, access, wake)
    mount(app, mill, lambda request: viewer(access, request))
    return Listener(app, access, mill.settings.api.host, mill.settings.api.port)


def viewer(access: Access, request: Request) -> Viewer:
    """Whoever looks at the page: there they may do what they may do over the API, and it is written down alike."""
    caller: Caller = request.scope["state"]["caller"]

    def permit(workflow: str | None) -> None:
        access.permit(caller, Role.OPERATOR)
        access.permit_in(caller, workflow)

    return Viewer(
        caller.name,
        acts=caller.role.covers(Role.OPERATOR),
        permit=permit,
        recorded=partial(recorded, access.accounts, caller),
    )
