"""A TCP client: connects to an address and inserts newline-delimited JSON from there.

The protocol has no acknowledgements: when either side fails, data in flight are lost, or sent again if the sender does
so. While events cannot be inserted nothing is read, so that the sender gets back-pressure.
"""

import logging
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass

from tidemill.errors import BadInput, TidemillError

log = logging.getLogger("tidemill.sources")

_CHUNK_BYTES = 1 << 16
_POLL_SECONDS = 0.5  # seconds between two checks whether to continue
_MAX_PAUSE = 30.0  # seconds between two attempts


@dataclass(frozen=True, slots=True)
class TcpSource:
    """Inserts lines from a TCP address.

    `insert_lines` inserts lines, all or none, after `seconds` or at `size` bytes.
    """

    name: str
    host: str
    port: int
    insert_lines: Callable[[bytes], None]
    pause: Callable[[float], object]  # ends early when the server stops
    seconds: float = 0.5
    size: int = 8 * 1024**2

    def run(self, is_active: Callable[[], bool]) -> None:
        """Connect and read while `is_active` returns True."""
        failures = 0
        while is_active():
            try:
                with socket.create_connection((self.host, self.port), timeout=_POLL_SECONDS * 10) as connection:
                    connection.settimeout(min(_POLL_SECONDS, self.seconds) or _POLL_SECONDS)
                    log.info("source %s: connected to %s:%d", self.name, self.host, self.port)
                    failures = 0
                    self._read_connection(connection, is_active)
            except OSError as error:
                log.warning("source %s: %s:%d: %s; retrying", self.name, self.host, self.port, error)
            failures += 1
            self.pause(min(2.0**failures / 4, _MAX_PAUSE))

    def _read_connection(self, connection: socket.socket, is_active: Callable[[], bool]) -> None:
        """Insert all complete lines that were read, also if `is_active` becomes False meanwhile."""
        buffer, last_insert, has_ended = bytearray(), time.monotonic(), False
        while not has_ended:
            chunk = _receive_bytes(connection) if is_active() else b""
            buffer += chunk or b""
            has_ended = chunk == b""
            if has_ended or len(buffer) >= self.size or time.monotonic() - last_insert >= self.seconds:
                length = len(buffer) if has_ended and is_active() else buffer.rfind(b"\n") + 1
                self._insert_lines(bytes(buffer[:length]), is_active)
                del buffer[:length]
                last_insert = time.monotonic()
            if len(buffer) > 2 * self.size:
                raise OSError(f"a line is longer than {2 * self.size} bytes")

    def _insert_lines(self, lines: bytes, is_active: Callable[[], bool]) -> None:
        """Insert lines with retries; invalid lines are logged and skipped."""
        failures = 0
        while lines.strip():
            try:
                self.insert_lines(lines)
                return
            except BadInput as error:
                self._insert_halves(lines.splitlines(), error, is_active)
                return
            except TidemillError as error:
                log.error("source %s: cannot insert, retrying: %s", self.name, error)
                failures += 1
                self.pause(min(2.0**failures / 4, _MAX_PAUSE))
                if not is_active():
                    return

    def _insert_halves(self, lines: list[bytes], error: BadInput, is_active: Callable[[], bool]) -> None:
        if len(lines) == 1:
            log.error("source %s: skipped: %s", self.name, error)
            return
        half = len(lines) // 2
        for part in (lines[:half], lines[half:]):
            self._insert_lines(b"\n".join(part), is_active)


def _receive_bytes(connection: socket.socket) -> bytes | None:
    """The received bytes; empty at the end of the stream; None after a timeout."""
    try:
        return connection.recv(_CHUNK_BYTES)
    except TimeoutError:
        return None
