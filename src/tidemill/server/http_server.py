"""The HTTP listener: a server in a separate thread of the process."""

from __future__ import annotations

import asyncio
import logging
import socket
import threading

import uvicorn
from fastapi import FastAPI

from tidemill.errors import ConfigError
from tidemill.model.network import is_loopback
from tidemill.server.access import AccessControl
from tidemill.server.connection_guard import ConnectionLimits, build_protocol, reserve_files
from tidemill.server.dependencies import ApiOptions

log = logging.getLogger("tidemill.server.access")

_SHUTDOWN_SECONDS = 5  # seconds for pending responses when the server stops
_PING_TIMEOUT_SECONDS = 120.0  # without a pong, before a socket is closed; the cause may be that we do not read


class HttpListener:
    """Listens inside its context.

    with HttpListener(build_api(mill, access), access, "127.0.0.1", 8484) as listener:
        print(listener.url)
    """

    def __init__(self, app: FastAPI, access: AccessControl, host: str = "127.0.0.1", port: int = 8484) -> None:
        check_host(host, access)
        options: ApiOptions = app.state.options
        self._app = app
        self._socket = _bind_socket(host, port)
        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            http=_build_protocol(options),
            # Only these may name another caller than the other end of the connection.
            proxy_headers=bool(options.trusted_proxies),
            forwarded_allow_ips=list(options.trusted_proxies),
            server_header=False,
            timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
            ws="websockets-sansio",  # it stops reading while received messages are not consumed
            ws_max_size=options.max_message_bytes,
            ws_ping_timeout=_PING_TIMEOUT_SECONDS,
            ws_per_message_deflate=False,  # small messages do not benefit from it
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

    def __exit__(self, *_: object) -> None:
        self._app.state.is_stopping = True
        self._server.should_exit = True
        self._thread.join()
        self._socket.close()

    def _run_server(self) -> None:
        self._server.run(sockets=[self._socket])


def check_host(host: str, access: AccessControl) -> None:
    """Refuse to listen on other than loopback addresses while access control is off, unless that was demanded."""
    if access.enabled or is_loopback(host):
        return
    if not access.admits_all:
        raise ConfigError(
            f"the API would listen on {host}, where others can reach it, and access control is off; "
            "turn it on, or listen on 127.0.0.1"
        )
    log.warning(
        "authentication is switched off, and the API listens on %s: everyone who can reach it is an admin; "
        "remove authentication = false from [api]",
        host,
    )


def _build_protocol(options: ApiOptions) -> type[asyncio.Protocol]:
    connections = reserve_files(options.max_connections)
    return build_protocol(ConnectionLimits(connections, options.header_timeout))


def _bind_socket(host: str, port: int) -> socket.socket:
    """A bound and listening socket: connections from now on are answered as soon as the server has started."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, socket.SOCK_STREAM)
    except OSError as error:
        raise ConfigError(f"the API cannot listen on {host}: {error.strerror or error}") from error
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen()
    except OSError as error:
        listener.close()
        raise ConfigError(f"the API cannot listen on {host} port {port}: {error.strerror}; choose another") from error
    return listener
