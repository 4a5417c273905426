"""Options of the API; `app` and `cli` create them from the project's settings."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ApiOptions:
    """Sizes are in bytes, times in seconds."""

    allowed_hosts: tuple[str, ...] = ()  # names by which clients may address the server, besides those of loopback
    max_upload_bytes: int = 1024**3  # of one insert, compressed and decompressed
    max_body_bytes: int = 1024**2  # of any other request
    max_shared_bytes: int = 256 * 1024  # inserts up to this size may share a block with concurrent ones
    max_wait: float = 0.5  # seconds that a pushed message waits for others to share its block
    max_rows: int = 100_000  # that fill a block without further waiting
    max_bytes: int = 8 * 1024**2  # likewise
    max_message_bytes: int = 1024**2  # of one pushed message
    max_unacknowledged_bytes: int = 512 * 1024  # of one connection's messages; beyond, it is not read from
    memory_bytes: int = 64 * 1024**2  # of all connections' messages together; beyond, none is read from
    poll_interval: float = 0.5  # between two polls for new events
    stream_seconds: float = 300.0  # after which a stream ends: the client reconnects, and its token is checked again
