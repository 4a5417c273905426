"""Whether a server holds: small inserts at a steady rate, while others watch what happens."""

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
"""Of each insert."""
CLIENTS = 64
"""Connections over which inserts are sent."""
TRIES = 5
_API = "/api/v1"
_HOST, _PORT = "127.0.0.1", 8490
_PATIENCE = 120.0  # seconds for the server to come up, and for each answer

_WORKFLOW = """import tidemill as tm

wf = tm.Workflow("load")
wf.input("events", "id bigint, word string")
"""


@dataclass(slots=True)
class Seen:
    """What the clients have seen."""

    acknowledged: list[float] = field(default_factory=list)  # seconds from when each insert was to be sent
    refused: int = 0
    events: int = 0


def measure(directory: Path, *, rate: int, seconds: int, streams: int, tell: Callable[[str], None]) -> dict[str, Any]:
    """Insert at this rate for so long, with so many event streams open; every acknowledged row must be there."""
    with _server(directory, tell) as url:
        tell(f"{rate} inserts a second for {seconds} s, {streams} event streams")
        began = time.monotonic()
        seen = asyncio.run(_load(rate, seconds, streams))
        took = time.monotonic() - began
        with Client(url) as client:
            blocks = client.channel("events").head
    stored = _stored(directory)
    times = sorted(seen.acknowledged)
    return {
        "rate": rate,
        "seconds": seconds,
        "streams": streams,
        "acknowledged": len(times),
        "a_second": round(len(times) / took, 1),
        "p50_ms": round(times[len(times) // 2] * 1000, 1),
        "p99_ms": round(times[int(len(times) * 0.99)] * 1000, 1),
        "refused": seen.refused,
        "lost": len(times) * ROWS - stored,
        "blocks": blocks,
        "events": seen.events,
    }


def _stored(directory: Path) -> int:
    """The rows that are there in the end, each of which came once."""
    with Tidemill.open(directory) as mill:
        ids = [row["id"] for row in mill.rows("events")]
    return len(set(ids)) if len(ids) == len(set(ids)) else -1


async def _load(rate: int, seconds: int, streams: int) -> Seen:
    """The clients are as light as they can be: they share the machine with what they measure."""
    seen = Seen()
    watching = [asyncio.create_task(_watch(seen)) for _ in range(streams)]
    waiting: asyncio.Queue[tuple[int, float] | None] = asyncio.Queue()
    clients = [asyncio.create_task(_inserting(waiting, seen)) for _ in range(CLIENTS)]
    began = time.monotonic()
    for number in range(rate * seconds):
        at = began + number / rate
        await asyncio.sleep(max(0.0, at - time.monotonic()))
        waiting.put_nowait((number, at))
    for _ in clients:
        waiting.put_nowait(None)
    await asyncio.gather(*clients)
    for watcher in watching:
        watcher.cancel()
    await asyncio.gather(*watching, return_exceptions=True)
    return seen


async def _inserting(waiting: asyncio.Queue[tuple[int, float] | None], seen: Seen) -> None:
    """One client on one connection. What fails is sent again under its key."""
    connection = await asyncio.open_connection(_HOST, _PORT)
    while (wanted := await waiting.get()) is not None:
        number, at = wanted
        for _ in range(TRIES):
            try:
                status = await _answered(connection, _request(number))
            except (OSError, asyncio.IncompleteReadError):
                connection = await asyncio.open_connection(_HOST, _PORT)
                continue
            if status in (200, 201):
                seen.acknowledged.append(time.monotonic() - at)
                break
        else:
            seen.refused += 1
    connection[1].close()


def _request(number: int) -> bytes:
    body = "".join(json.dumps({"id": number * ROWS + n, "word": f"w{n}"}) + "\n" for n in range(ROWS)).encode()
    head = (
        f"POST {_API}/channels/events/blocks HTTP/1.1\r\nHost: {_HOST}:{_PORT}\r\n"
        f"Content-Type: application/x-ndjson\r\nIdempotency-Key: load-{number}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def _answered(connection: tuple[asyncio.StreamReader, asyncio.StreamWriter], request: bytes) -> int:
    reader, writer = connection
    writer.write(request)
    head = await reader.readuntil(b"\r\n\r\n")
    lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    await reader.readexactly(int(lengths[0].split(b":")[1]) if lengths else 0)
    return int(head.split(b" ", 2)[1])


async def _watch(seen: Seen) -> None:
    while True:
        reader, writer = await asyncio.open_connection(_HOST, _PORT)
        writer.write(f"GET {_API}/events/stream HTTP/1.1\r\nHost: {_HOST}:{_PORT}\r\n\r\n".encode())
        while data := await reader.read(1 << 16):
            seen.events += data.count(b"data:")
        writer.close()


@contextmanager
def _server(directory: Path, tell: Callable[[str], None]) -> Iterator[str]:
    """`tidemill up` as anybody would start it."""
    (directory / "tidemill.toml").write_text(f"[api]\nport = {_PORT}\n")
    (directory / "workflow.py").write_text(_WORKFLOW)
    program = [str(Path(sys.executable).with_name("tidemill")), "--project", str(directory), "up"]
    tell("starting a server")
    with (directory / "up.log").open("wb") as log:
        process = subprocess.Popen(program, stdout=log, stderr=log, env={**os.environ})
    try:
        _wait(directory / "up.log", process)
        yield f"http://{_HOST}:{_PORT}"
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(_PATIENCE)


def _wait(log: Path, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + _PATIENCE
    while b" serves " not in log.read_bytes():
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"the server did not come up: {log.read_text()[-2000:]}")
        time.sleep(0.1)
