"""What can be set about the API; `app` and `cli` make these of the project's settings."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ApiOptions:
    """Sizes are in bytes, times in seconds."""

    names: tuple[str, ...] = ()  # by which clients may call the server, besides those of loopback
    upload: int = 1024**3  # of one insert, as sent and as unpacked
    body: int = 1024**2  # of any other request
    small: int = 256 * 1024  # inserts up to this size may share a block with others that come at the same time
    patience: float = 0.5  # for which what is pushed waits, so that others can share its block
    rows: int = 100_000  # that are enough for a block, however short they waited
    bytes: int = 8 * 1024**2  # likewise
    message: int = 1024**2  # of what is pushed at a time
    window: int = 512 * 1024  # of one connection's messages that are not acknowledged; then it is not read from
    memory: int = 64 * 1024**2  # of all connections' messages together; then none is read from
    look: float = 0.5  # between two looks for new events, for those who listen
    listen: float = 300.0  # after which a stream of events ends: the client goes on with a token that is checked anew
