"""Options of the API; `app` and `cli` create them from the project's settings."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ApiOptions:
    """Sizes are in bytes, times in seconds."""

    names: tuple[str, ...] = ()  # names by which clients may address the server, besides those of loopback
    upload: int = 1024**3  # of one insert, compressed and decompressed
    body: int = 1024**2  # of any other request
    small: int = 256 * 1024  # inserts up to this size may share a block with concurrent ones
    patience: float = 0.5  # seconds that a pushed message waits for others to share its block
    rows: int = 100_000  # that fill a block without further waiting
    bytes: int = 8 * 1024**2  # likewise
    message: int = 1024**2  # of one pushed message
    window: int = 512 * 1024  # of one connection's unacknowledged messages; beyond, it is not read from
    memory: int = 64 * 1024**2  # of all connections' messages together; beyond, none is read from
    look: float = 0.5  # between two polls for new events
    listen: float = 300.0  # after which a stream of events ends: the client reconnects, and its token is checked again
