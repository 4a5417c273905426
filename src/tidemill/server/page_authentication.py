"""Authentication of pages: a browser sends a cookie that it received for a token.

The cookie is the token, which scripts cannot read and other sites cannot make a browser send. Changes from foreign
origins are refused earlier (see `request_guard`), sockets included.
"""

import asyncio
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from tidemill.errors import TidemillError
from tidemill.intake.sources.websub import CALLBACK_PREFIX as HUBS
from tidemill.server.access import AccessControl, Caller
from tidemill.server.authentication import PREFIX
from tidemill.server.request_guard import HEALTH_PATHS

COOKIE = "tidemill_token"
LOGIN, LOGOUT = "/login", "/logout"
_MAX_FORM_BYTES = 1000  # bytes of the form
_FORM_SECONDS = 10.0  # within which it must arrive
_POLICY_VIOLATION = 1008  # the close code of a socket for a policy violation

_FORM = """<!doctype html><html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width"><title>Tidemill</title></head>
<body><main><h1>Tidemill</h1><p role="alert">{message}</p>
<form method="post" action="/login"><label>Token <input name="token" type="password" autocomplete="current-password"
required autofocus></label> <button>Sign in</button></form></main></body></html>"""


class PageAuthentication:
    """Puts the caller into the request's state, and redirects unauthenticated requests to the login form."""

    def __init__(self, app: ASGIApp, *, access: AccessControl) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope.get("path", "")
        # WebSub hubs have no token: their requests are signed.
        if scope["type"] not in ("http", "websocket") or path.startswith((PREFIX, HUBS)) or path in HEALTH_PATHS:
            await self._app(scope, receive, send)
        elif scope["type"] == "http" and path in (LOGIN, LOGOUT):
            response = await self._handle_login(Request(scope, receive))
            await response(scope, receive, send)
        else:
            await self._serve_page(scope, receive, send)

    async def _serve_page(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            caller = await self._identify_caller(scope, _read_cookie(scope))
        except TidemillError:
            if scope["type"] == "websocket":
                await receive()
                await send({"type": "websocket.close", "code": _POLICY_VIOLATION})
            else:
                await RedirectResponse(LOGIN, 303)(scope, receive, send)
            return
        scope.setdefault("state", {})["caller"] = caller
        await self._app(scope, receive, send)

    async def _identify_caller(self, scope: Scope, token: str | None) -> Caller:
        address = (scope.get("client") or ("",))[0]
        return await self._access.identify_caller(address, None if token is None else f"Bearer {token}")

    async def _handle_login(self, request: Request) -> Response:
        if request.url.path == LOGOUT:
            response: Response = RedirectResponse(LOGIN, 303)
            response.delete_cookie(COOKIE, httponly=True, samesite="strict", secure=_is_encrypted(request))
            return response
        if request.method != "POST":
            return HTMLResponse(_FORM.format(message=""))
        try:
            return await self._sign_in(request)
        except TimeoutError:
            return HTMLResponse(_FORM.format(message="The token did not arrive in time."), 408)

    async def _sign_in(self, request: Request) -> Response:
        body = b""
        async with asyncio.timeout(_FORM_SECONDS):
            async for part in request.stream():
                body += part
                if len(body) > _MAX_FORM_BYTES:
                    return HTMLResponse(_FORM.format(message="This is not a token."), 413)
        token = (parse_qs(body.decode("ascii", "replace")).get("token") or [""])[0].strip()
        try:
            await self._identify_caller(request.scope, token)
        except TidemillError:
            return HTMLResponse(_FORM.format(message="The token is unknown, expired or revoked."), 401)
        response = RedirectResponse("/", 303)
        response.set_cookie(COOKIE, token, httponly=True, samesite="strict", secure=_is_encrypted(request))
        return response


def _is_encrypted(request: Request) -> bool:
    """Whether the browser uses TLS, as far as this server or a trusted proxy says."""
    return request.url.scheme == "https"


def _read_cookie(scope: Scope) -> str | None:
    try:
        cookie = SimpleCookie(Headers(scope=scope).get("cookie", "")).get(COOKIE)
    except CookieError:
        return None
    return None if cookie is None else cookie.value
