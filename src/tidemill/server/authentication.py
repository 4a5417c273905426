"""Authentication before a request's body is read, and the audit log of changes."""

import logging
from contextlib import AbstractContextManager

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tidemill.app.auditing import audit_change
from tidemill.errors import TidemillError
from tidemill.model.access import AuditOutcome, AuditStart
from tidemill.ports.accounts import AccountCatalog
from tidemill.server.access import AccessControl, Caller
from tidemill.server.batching import RequestBatcher
from tidemill.server.request_guard import HEALTH_PATHS, SAFE_METHODS
from tidemill.wire.refusals import find_status


def audit_action(accounts: AccountCatalog, caller: Caller, action: str) -> AbstractContextManager[None]:
    """Record an action of the page in the audit log."""
    return audit_change(accounts, build_audit_start(caller, f"PAGE {action}"))


def build_audit_start(caller: Caller, action: str) -> AuditStart:
    return AuditStart(caller.name, caller.token, caller.address, action, caller.role)


log = logging.getLogger("tidemill.server.access")

PREFIX = "/api/"
PUSH_SUFFIX = "/push"
"""The suffix of the paths of sockets that change data."""
_SWITCHING_PROTOCOLS = 101  # the HTTP status of an opened socket


class ApiAuthentication:
    """Puts the caller into the request's state, and the requested changes into the audit log."""

    def __init__(self, app: ASGIApp, *, access: AccessControl) -> None:
        self._app = app
        self._access = access
        self._audit: RequestBatcher[AuditStart | AuditOutcome, int] = RequestBatcher(access.accounts.record_audit)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_api = scope["type"] in ("http", "websocket") and scope["path"].startswith(PREFIX)
        if not is_api or scope["path"] in HEALTH_PATHS:
            await self._app(scope, receive, send)
            return
        caller = await self._identify_caller(scope)
        scope.setdefault("state", {})["caller"] = caller
        if _is_read_only(scope):
            await self._app(scope, receive, send)
        else:
            await self._audit_request(caller, scope, receive, send)

    async def _identify_caller(self, scope: Scope) -> Caller:
        address = (scope.get("client") or ("",))[0]
        return await self._access.identify_caller(address, Headers(scope=scope).get("authorization"))

    async def _audit_request(self, caller: Caller, scope: Scope, receive: Receive, send: Send) -> None:
        action = f"{scope.get('method', 'SOCKET')} {_escape_path(scope['path'])}"
        entry = await self._audit.enqueue_item(build_audit_start(caller, action))

        async def send_with_outcome(message: Message) -> None:
            """Record the outcome before sending it, so that a caller with a response finds it in the audit log."""
            if message["type"] in ("http.response.start", "websocket.http.response.start"):
                await self._record_outcome(entry, message["status"])
            elif message["type"] == "websocket.accept":
                await self._record_outcome(entry, _SWITCHING_PROTOCOLS)
            await send(message)

        try:
            await self._app(scope, receive, send_with_outcome)
        except ClientDisconnect:
            raise
        except Exception as error:  # an outer middleware builds the response
            await self._record_outcome(entry, find_status(type(error)))
            raise

    async def _record_outcome(self, entry: int, status: int) -> None:
        try:
            await self._audit.enqueue_item(AuditOutcome(entry, status))
        except TidemillError as error:  # the change was made: the entry stays without an outcome
            log.error("the outcome %d of audit entry %d could not be written: %s", status, entry, error)


def _is_read_only(scope: Scope) -> bool:
    if scope["type"] == "websocket":
        return not scope["path"].endswith(PUSH_SUFFIX)
    return scope["method"] in SAFE_METHODS


def _escape_path(path: str) -> str:
    """
    >>> _escape_path("/api/a\\x00b")
    '/api/a\\\\x00b'
    """
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in path)
