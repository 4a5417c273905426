"""Listening: a server of HTTP in a thread of its own, beside whatever else the process does."""

from __future__ import annotations

import socket
import threading
from types import TracebackType

import uvicorn
from fastapi import FastAPI

from tidemill.errors import ConfigError
from tidemill.server.access import AccessControl
from tidemill.server.request_guard import is_loopback

_PATIENCE = 5  # seconds that answers under way are given when the server ends
_STALLED = 120.0  # seconds without a sign of life after which a socket is given up; it may be we who do not read


class HttpListener:
    """Listens while it is entered.

    with Listener(api(mill, access), access, "127.0.0.1", 8484) as listener:
        print(listener.url)
    """

    def __init__(self, app: FastAPI, access: AccessControl, host: str = "127.0.0.1", port: int = 8484) -> None:
        check_host(host, access)
        self._app = app
        self._socket = _bind_socket(host, port)
        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            proxy_headers=False,  # who calls is who is at the other end, whatever a header says
            server_header=False,
            timeout_graceful_shutdown=_PATIENCE,
            ws="websockets-sansio",  # it stops reading while nobody takes what came
            ws_max_size=app.state.options.message,
            ws_ping_timeout=_STALLED,
            ws_per_message_deflate=False,  # small messages gain nothing by it
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._run_server, name="tidemill-api", daemon=True)

    @property
    def url(self) -> str:
        host, port = self._socket.getsockname()[:2]
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    def __enter__(self) -> HttpListener:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._app.state.ending = True
        self._server.should_exit = True
        self._thread.join()
        self._socket.close()

    def _run_server(self) -> None:
        self._server.run(sockets=[self._socket])


def check_host(host: str, access: AccessControl) -> None:
    """Nobody but this machine is let in while nobody has to say who they are."""
    if not access.enabled and not is_loopback(host):
        raise ConfigError(
            f"the API would listen on {host}, where others can reach it, and access control is off; "
            "turn it on, or listen on 127.0.0.1"
        )


def _bind_socket(host: str, port: int) -> socket.socket:
    """Bound and listening: whoever connects from now on is answered as soon as the server has started."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        made = socket.socket(family, socket.SOCK_STREAM)
    except OSError as error:
        raise ConfigError(f"the API cannot listen on {host}: {error.strerror or error}") from error
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(address)
        made.listen()
    except OSError as error:
        made.close()
        raise ConfigError(f"the API cannot listen on {host} port {port}: {error.strerror}; choose another") from error
    return made
