"""A TCP client: connects to an address and takes newline-delimited JSON from there.

The other side knows no acknowledgements: what is on the way when either side dies is lost, or comes again, as the other
side pleases. While events cannot be inserted nothing is read, and the other side has to wait.
"""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass

from tidemill.errors import BadInput, TidemillError

log = logging.getLogger("tidemill.sources")

_PIECE = 1 << 16
_LOOK = 0.5  # seconds after which it is asked whether to go on
_LONGEST_PAUSE = 30.0  # seconds between two tries


@dataclass(frozen=True, slots=True)
class TcpSource:
    """`take` inserts lines, all or none. A block is cut after so many seconds, or at a size in bytes."""

    name: str
    host: str
    port: int
    take: Callable[[bytes], None]
    pause: Callable[[float], None]  # ends early when the server does
    seconds: float = 0.5
    size: int = 8 * 1024**2

    def run(self, still: Callable[[], bool]) -> None:
        """Until `still` says no."""
        failed = 0
        while still():
            try:
                with socket.create_connection((self.host, self.port), timeout=_LOOK * 10) as connection:
                    connection.settimeout(min(_LOOK, self.seconds) or _LOOK)
                    log.info("source %s: connected to %s:%d", self.name, self.host, self.port)
                    failed = 0
                    self._read_connection(connection, still)
            except OSError as error:
                log.warning("source %s: %s:%d: %s; trying again", self.name, self.host, self.port, error)
            failed += 1
            self.pause(min(2.0**failed / 4, _LONGEST_PAUSE))

    def _read_connection(self, connection: socket.socket, still: Callable[[], bool]) -> None:
        """What was read is inserted, though it be told to end meanwhile; a line that is not whole is not."""
        kept, since, ended = bytearray(), time.monotonic(), False
        while not ended:
            piece = _receive_bytes(connection) if still() else b""
            kept += piece or b""
            ended = piece == b""
            if ended or len(kept) >= self.size or time.monotonic() - since >= self.seconds:
                whole = len(kept) if ended and still() else kept.rfind(b"\n") + 1
                self._insert_lines(bytes(kept[:whole]), still)
                del kept[:whole]
                since = time.monotonic()
            if len(kept) > 2 * self.size:
                raise OSError(f"a line is longer than {2 * self.size} bytes")

    def _insert_lines(self, lines: bytes, still: Callable[[], bool]) -> None:
        """Try until it is done; what does not fit is told of, line by line, and left out."""
        failed = 0
        while lines.strip():
            try:
                self.take(lines)
                return
            except BadInput as error:
                self._insert_halves(lines.splitlines(), error, still)
                return
            except TidemillError as error:
                log.error("source %s: cannot insert, trying again: %s", self.name, error)
                failed += 1
                self.pause(min(2.0**failed / 4, _LONGEST_PAUSE))
                if not still():
                    return

    def _insert_halves(self, lines: list[bytes], error: BadInput, still: Callable[[], bool]) -> None:
        if len(lines) == 1:
            log.error("source %s: left out: %s", self.name, error)
            return
        half = len(lines) // 2
        for part in (lines[:half], lines[half:]):
            self._insert_lines(b"\n".join(part), still)


def _receive_bytes(connection: socket.socket) -> bytes | None:
    """What came; nothing at the end; None if nothing came for a while."""
    try:
        return connection.recv(_PIECE)
    except TimeoutError:
        return None
