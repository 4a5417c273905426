"""What `tidemill up` offers on its address: the API, and the page for people."""

from __future__ import annotations

from collections.abc import Callable

from fastapi import Request

from tidemill.app import Tidemill
from tidemill.model.access import Role
from tidemill.server.access import Access, Caller
from tidemill.server.listen import Listener
from tidemill.server.wiring import access_of, application
from tidemill.ui.page import mount
from tidemill.ui.viewer import Viewer


def listener(mill: Tidemill, wake: Callable[[], None]) -> Listener:
    """Listens while it is entered; `wake` is called when something may have become due."""
    access = access_of(mill)
    app = application(mill, access, wake)
    mount(app, mill, lambda request: viewer(mill, access, request))
    return Listener(app, access, mill.settings.api.host, mill.settings.api.port)


def viewer(mill: Tidemill, access: Access, request: Request) -> Viewer:
    """What whoever looks may do. The page knows no owners: where workflows have some, it is for admins to act."""
    caller: Caller = request.scope["state"]["caller"]
    owned = any(access.accounts.owners(w.name) for w in mill.catalog.workflows())
    may = caller.role is Role.ADMIN or (caller.role.covers(Role.OPERATOR) and not owned)
    return Viewer(caller.name, may_run=may, may_kill=may, may_pause=may)
