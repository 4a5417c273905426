"""The outermost layer: checks the host and origin of a request, and sets headers of every response.

A page of another site can make a browser call this machine (cross-site requests), and can resolve its own name to this
machine's address (DNS rebinding). The first is detected by `Origin`, the second by `Host`.
"""

from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tidemill.errors import TidemillError
from tidemill.server.error_handlers import ErrorResponder
from tidemill.wire.refusals import Forbidden, Misdirected

LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")


SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that change nothing."""

HEALTH_PATHS = frozenset({"/healthz", "/livez", "/api/v1/healthz", "/api/v1/livez"})
"""Paths where any client may check the server's health, under any host name."""

HEADERS = {
    "Content-Security-Policy": "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class RequestGuard:
    """Admits requests to this server, adds default headers, and turns remaining errors into responses."""

    def __init__(self, app: ASGIApp, *, names: tuple[str, ...], responder: ErrorResponder) -> None:
        self._app = app
        self._names = frozenset(n.lower() for n in (*LOOPBACK_NAMES, *names))
        self._responder = responder

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        sender = _ResponseSender(send)
        try:
            self._check_request(scope)
            await self._app(scope, receive, sender)
        except ClientDisconnect:
            return
        except Exception as error:
            is_socket = scope["type"] == "websocket"
            if is_socket and (sender.started or not isinstance(error, TidemillError)):
                raise
            response = self._responder(error)
            if is_socket:  # it is refused before it is opened, with a response that gives the reason
                await receive()
            if not sender.started:
                await response(scope, receive, sender)

    def _check_request(self, scope: Scope) -> None:
        if scope["path"] in HEALTH_PATHS:
            return
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if _parse_host(host) not in self._names:
            raise Misdirected(
                "this server is not known by that name; if it is a name of it, add it to the settings of the API"
            )
        if scope.get("method") not in SAFE_METHODS and _is_foreign(headers, host):
            raise Forbidden("a page of another site made this request; such pages may not change anything here")


def _parse_host(host: str) -> str:
    """The name in `name:port`.

    >>> _parse_host("LocalHost:80"), _parse_host("[::1]:80"), _parse_host("a:b:c"), _parse_host("")
    ('localhost', '::1', '', '')
    """
    try:
        parts = urlsplit(f"//{host}")
        return "" if parts.username is not None or parts.port == 0 else (parts.hostname or "")
    except ValueError:
        return ""


def _is_foreign(headers: Headers, host: str) -> bool:
    origin = headers.get("origin")
    if origin is None:
        return headers.get("sec-fetch-site") in ("cross-site", "same-site")
    return urlsplit(origin).netloc.lower() != host.lower() if "://" in origin else True


class _ResponseSender:
    """Sends messages, and records whether a response has started."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.started = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "websocket.accept":
            self.started = True
        elif message["type"] in ("http.response.start", "websocket.http.response.start"):
            self.started = True
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
        await self._send(message)
