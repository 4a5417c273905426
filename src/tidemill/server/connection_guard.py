"""Bounds on connections: how many are open, and how long one may stay open without a request.

A connection waits from its start, and from the end of each response, until the headers of its next request are
complete. One that waits too long is closed. If too many are open, the one that has waited longest is closed for a new
one, so that idle connections never keep callers out.
"""

from __future__ import annotations

import asyncio
import logging
import resource
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

if TYPE_CHECKING:
    from uvicorn.protocols.http.h11_impl import H11Protocol as _HttpProtocol
else:
    _HttpProtocol = AutoHTTPProtocol

log = logging.getLogger("tidemill.server.access")

_RESERVED_FILES = 512  # file descriptors for everything but connections: Spark, the catalog, files of blocks


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    max_connections: int = 1000
    header_timeout: float = 10.0  # seconds within which a waiting connection must send the headers of a request
    max_header_bytes: int = 64 * 1024


class ConnectionGuard:
    """The waiting connections, in the order in which they began to wait. Used in one event loop."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self.limits = limits
        self._waiting: dict[GuardedProtocol, asyncio.TimerHandle] = {}

    def admit_connection(self, connection: GuardedProtocol) -> None:
        """Let a new connection wait; if too many are open, close the one that has waited longest."""
        self.start_waiting(connection)
        if len(connection.connections) > self.limits.max_connections:
            oldest = next(iter(self._waiting))
            self.stop_waiting(oldest)
            oldest.transport.abort()

    def start_waiting(self, connection: GuardedProtocol) -> None:
        self.stop_waiting(connection)
        self._waiting[connection] = connection.loop.call_later(
            self.limits.header_timeout, self._close_connection, connection
        )

    def stop_waiting(self, connection: GuardedProtocol) -> None:
        timer = self._waiting.pop(connection, None)
        if timer is not None:
            timer.cancel()

    def is_waiting(self, connection: GuardedProtocol) -> bool:
        return connection in self._waiting

    def _close_connection(self, connection: GuardedProtocol) -> None:
        self.stop_waiting(connection)
        connection.transport.close()


class GuardedProtocol(_HttpProtocol):
    """One HTTP connection. Sockets leave the guard when they are opened: they have pings, and need a token."""

    guard = ConnectionGuard(ConnectionLimits())
    _header_bytes = 0  # received while it waits

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.guard.admit_connection(self)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._has_request():
            self.guard.stop_waiting(self)
        elif self.guard.is_waiting(self):
            self._count_header(len(data))

    def handle_websocket_upgrade(self, *args: Any, **kwargs: Any) -> None:
        self.guard.stop_waiting(self)
        super().handle_websocket_upgrade(*args, **kwargs)

    def on_response_complete(self) -> None:
        self._header_bytes = 0
        super().on_response_complete()  # it begins with the next request if that has arrived
        if not self._has_request() and not self.transport.is_closing():
            self.guard.start_waiting(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.guard.stop_waiting(self)
        super().connection_lost(exc)

    def _has_request(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _count_header(self, size: int) -> None:
        self._header_bytes += size
        if self._header_bytes > self.guard.limits.max_header_bytes:
            self.guard.stop_waiting(self)
            self.transport.abort()


def build_protocol(limits: ConnectionLimits) -> type[GuardedProtocol]:
    """The protocol class of one listener: all of its connections share a guard."""

    class ListenerProtocol(GuardedProtocol):
        guard = ConnectionGuard(limits)

    return ListenerProtocol


def reserve_files(connections: int) -> int:
    """Raise the process's limit of open files for so many connections; returns the number that fits.

    Without a free file descriptor the server cannot accept a connection in order to close another one.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + _RESERVED_FILES
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return connections
    raised = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
    if raised < wanted:
        log.warning(
            "this process may open %d files, so it holds %d connections instead of %d; raise the limit (ulimit -n)",
            raised,
            max(1, raised - _RESERVED_FILES),
            connections,
        )
    return min(connections, max(1, raised - _RESERVED_FILES))
