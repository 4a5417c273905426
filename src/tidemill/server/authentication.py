"""Authentication before anything of a request is read, and the audit of what it did."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tidemill.catalog.access import Accounts, Began, Ended
from tidemill.errors import TidemillError
from tidemill.server.access import Access, Caller
from tidemill.server.batching import Batches
from tidemill.server.request_guard import HEALTH, SAFE
from tidemill.wire.http_status import status_of

_DONE = 200


@contextmanager
def recorded(accounts: Accounts, caller: Caller, action: str) -> Iterator[None]:
    """Written down before it is done: a change without an entry cannot be."""
    (entry,) = accounts.write([Began(caller.name, caller.token, caller.address, f"PAGE {action}")])
    try:
        yield
    except Exception as error:
        accounts.write([Ended(entry, status_of(type(error)))])
        raise
    accounts.write([Ended(entry, _DONE)])


log = logging.getLogger("tidemill.server.access")

PREFIX = "/api/"
PUSH = "/push"
"""How the paths of sockets end over which somebody changes something."""
_SWITCHED = 101  # the status of a socket that was opened


class Identify:
    """Puts the caller into the request's state, and the changes that they ask for into the audit."""

    def __init__(self, app: ASGIApp, *, access: Access) -> None:
        self._app = app
        self._access = access
        self._audit: Batches[Began | Ended, int] = Batches(access.accounts.write)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        known = scope["type"] in ("http", "websocket") and scope["path"].startswith(PREFIX)
        if not known or scope["path"] in HEALTH:
            await self._app(scope, receive, send)
            return
        caller = await self._caller(scope)
        scope.setdefault("state", {})["caller"] = caller
        if _changes_nothing(scope):
            await self._app(scope, receive, send)
        else:
            await self._audited(caller, scope, receive, send)

    async def _caller(self, scope: Scope) -> Caller:
        address = (scope.get("client") or ("",))[0]
        return await self._access.identify(address, Headers(scope=scope).get("authorization"))

    async def _audited(self, caller: Caller, scope: Scope, receive: Receive, send: Send) -> None:
        action = f"{scope.get('method', 'SOCKET')} {_printable(scope['path'])}"
        entry = await self._audit.add(Began(caller.name, caller.token, caller.address, action))

        async def ending(message: Message) -> None:
            """The outcome is written before it is told, so that who has an answer finds it in the audit."""
            if message["type"] in ("http.response.start", "websocket.http.response.start"):
                await self._end(entry, message["status"])
            elif message["type"] == "websocket.accept":
                await self._end(entry, _SWITCHED)
            await send(message)

        try:
            await self._app(scope, receive, ending)
        except ClientDisconnect:
            raise
        except Exception as error:  # whoever is further out answers
            await self._end(entry, status_of(type(error)))
            raise

    async def _end(self, entry: int, status: int) -> None:
        try:
            await self._audit.add(Ended(entry, status))
        except TidemillError as error:  # what was done is done: the entry stays without an outcome
            log.error("the outcome %d of audit entry %d could not be written: %s", status, entry, error)


def _changes_nothing(scope: Scope) -> bool:
    if scope["type"] == "websocket":
        return not scope["path"].endswith(PUSH)
    return scope["method"] in SAFE


def _printable(path: str) -> str:
    """
    >>> _printable("/api/a\\x00b")
    '/api/a\\\\x00b'
    """
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in path)
