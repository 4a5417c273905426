"""Server load: small inserts at a steady rate, with open event streams."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tidemill.app.wiring import Tidemill
from tidemill.client import Client

ROWS = 5
"""Rows of each insert."""
CLIENTS = 64
"""Connections that send inserts."""
TRIES = 5
_API = "/api/v1"
_HOST, _PORT = "127.0.0.1", 8490
_PATIENCE = 120.0  # seconds for the server to start and stop

_WORKFLOW = """import tidemill as tm

wf = tm.Workflow("load")
wf.input("events", "id bigint, word string")
"""


@dataclass(slots=True)
class ClientFigures:
    """Figures of all clients."""

    acknowledged: list[float] = field(default_factory=list)  # seconds since the due time of each insert
    refused: int = 0
    events: int = 0


def measure(
    directory: Path, *, rate: int, seconds: int, streams: int, on_progress: Callable[[str], None]
) -> dict[str, Any]:
    """Insert at this rate with open event streams; every acknowledged row must be stored."""
    with _run_server(directory, on_progress) as url:
        on_progress(f"{rate} inserts a second for {seconds} s, {streams} event streams")
        began = time.monotonic()
        figures = asyncio.run(_generate_load(rate, seconds, streams))
        elapsed = time.monotonic() - began
        with Client(url) as client:
            blocks = client.channel("events").head
    stored = _count_stored_rows(directory)
    times = sorted(figures.acknowledged)
    return {
        "rate": rate,
        "seconds": seconds,
        "streams": streams,
        "acknowledged": len(times),
        "a_second": round(len(times) / elapsed, 1),
        "p50_ms": round(times[len(times) // 2] * 1000, 1),
        "p99_ms": round(times[int(len(times) * 0.99)] * 1000, 1),
        "refused": figures.refused,
        "lost": len(times) * ROWS - stored,
        "blocks": blocks,
        "events": figures.events,
    }


def _count_stored_rows(directory: Path) -> int:
    """The number of stored rows; -1 if a row is stored twice."""
    with Tidemill.open(directory) as mill:
        ids = [row["id"] for row in mill.rows("events")]
    return len(set(ids)) if len(ids) == len(set(ids)) else -1


async def _generate_load(rate: int, seconds: int, streams: int) -> ClientFigures:
    """Send inserts at their due times. The clients are minimal, because they share the machine with the server."""
    figures = ClientFigures()
    watchers = [asyncio.create_task(_watch_events(figures)) for _ in range(streams)]
    queue: asyncio.Queue[tuple[int, float] | None] = asyncio.Queue()
    clients = [asyncio.create_task(_insert_rows(queue, figures)) for _ in range(CLIENTS)]
    began = time.monotonic()
    for number in range(rate * seconds):
        due = began + number / rate
        await asyncio.sleep(max(0.0, due - time.monotonic()))
        queue.put_nowait((number, due))
    for _ in clients:
        queue.put_nowait(None)
    await asyncio.gather(*clients)
    for watcher in watchers:
        watcher.cancel()
    await asyncio.gather(*watchers, return_exceptions=True)
    return figures


async def _insert_rows(queue: asyncio.Queue[tuple[int, float] | None], figures: ClientFigures) -> None:
    """Send inserts over one connection; a failed insert is retried with the same idempotency key."""
    connection = await asyncio.open_connection(_HOST, _PORT)
    while (item := await queue.get()) is not None:
        number, due = item
        for _ in range(TRIES):
            try:
                status = await _send_request(connection, _build_request(number))
            except (OSError, asyncio.IncompleteReadError):
                connection = await asyncio.open_connection(_HOST, _PORT)
                continue
            if status in (200, 201):
                figures.acknowledged.append(time.monotonic() - due)
                break
        else:
            figures.refused += 1
    connection[1].close()


def _build_request(number: int) -> bytes:
    body = "".join(json.dumps({"id": number * ROWS + n, "word": f"w{n}"}) + "\n" for n in range(ROWS)).encode()
    head = (
        f"POST {_API}/channels/events/blocks HTTP/1.1\r\nHost: {_HOST}:{_PORT}\r\n"
        f"Content-Type: application/x-ndjson\r\nIdempotency-Key: load-{number}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def _send_request(connection: tuple[asyncio.StreamReader, asyncio.StreamWriter], request: bytes) -> int:
    reader, writer = connection
    writer.write(request)
    head = await reader.readuntil(b"\r\n\r\n")
    lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    await reader.readexactly(int(lengths[0].split(b":")[1]) if lengths else 0)
    return int(head.split(b" ", 2)[1])


async def _watch_events(figures: ClientFigures) -> None:
    while True:
        reader, writer = await asyncio.open_connection(_HOST, _PORT)
        writer.write(f"GET {_API}/events/stream HTTP/1.1\r\nHost: {_HOST}:{_PORT}\r\n\r\n".encode())
        while data := await reader.read(1 << 16):
            figures.events += data.count(b"data:")
        writer.close()


@contextmanager
def _run_server(directory: Path, on_progress: Callable[[str], None]) -> Iterator[str]:
    """Run `tidemill up` in a separate process, as users start it."""
    (directory / "tidemill.toml").write_text(f"[api]\nport = {_PORT}\n")
    (directory / "workflow.py").write_text(_WORKFLOW)
    build_program = [str(Path(sys.executable).with_name("tidemill")), "--project", str(directory), "up"]
    on_progress("starting a server")
    with (directory / "up.log").open("wb") as log:
        process = subprocess.Popen(build_program, stdout=log, stderr=log, env={**os.environ})
    try:
        _wait_for_server(directory / "up.log", process)
        yield f"http://{_HOST}:{_PORT}"
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(_PATIENCE)


def _wait_for_server(log: Path, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + _PATIENCE
    while b" serves " not in log.read_bytes():
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"the server did not start: {log.read_text()[-2000:]}")
        time.sleep(0.1)
