"""The Content-Security-Policy of the pages, with a separate nonce for each response.

Measured in Chromium: NiceGUI starts a page by inline scripts, which get the nonce; it compiles Vue templates, which
needs 'unsafe-eval'; and Quasar sets styles on elements, which needs 'unsafe-inline' for styles. Everything is loaded
from this server. An injected inline script or event handler has no nonce, and does not run.
"""

import secrets

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_SCRIPT = b"<script"


def build_policy(nonce: str) -> str:
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src 'self' 'nonce-{nonce}' 'unsafe-eval'",
            "style-src 'self' 'unsafe-inline'",
            "img-src 'self' data:",
            "font-src 'self'",
            "connect-src 'self'",
            "base-uri 'none'",
            "form-action 'self'",
            "frame-ancestors 'none'",
        )
    )


class ContentSecurityPolicy:
    """Sets the policy on every page of the inner application. A further one from outside can only restrict it more."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._app(scope, receive, _PageReply(send))
        else:
            await self._app(scope, receive, send)


class _PageReply:
    """Forwards a response; a page is buffered until it is complete, and its scripts get the nonce.

    Data of users never contains a `<`: NiceGUI writes it as `&lt;`, so an injected script never gets the nonce.
    """

    def __init__(self, send: Send) -> None:
        self._send = send
        self._start: Message | None = None
        self._body = b""

    async def __call__(self, message: Message) -> None:
        is_start = message["type"] == "http.response.start"
        if is_start and Headers(scope=message).get("content-type", "").startswith("text/html"):
            self._start = message
        elif message["type"] == "http.response.body" and self._start is not None:
            self._body += message.get("body", b"")
            if not message.get("more_body", False):
                await self._send_page(self._start)
        else:
            await self._send(message)

    async def _send_page(self, start: Message) -> None:
        nonce = secrets.token_urlsafe(16)
        body = self._body.replace(_SCRIPT, _SCRIPT + f' nonce="{nonce}"'.encode())
        headers = MutableHeaders(scope=start)
        headers["Content-Security-Policy"] = build_policy(nonce)
        headers["Content-Length"] = str(len(body))
        await self._send(start)
        await self._send({"type": "http.response.body", "body": body})
