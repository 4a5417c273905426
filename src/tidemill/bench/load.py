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

import httpx

ROWS = 5
"""Of each insert."""
TRIES = 5
_API = "/api/v1"
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
        seen = asyncio.run(_load(url, rate, seconds, streams))
        took = time.monotonic() - began
        stored = httpx.get(f"{url}{_API}/channels/events", timeout=_PATIENCE).json()
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
        "lost": len(times) * ROWS - stored["rows"],
        "blocks": stored["head"],
        "events": seen.events,
    }


async def _load(url: str, rate: int, seconds: int, streams: int) -> Seen:
    seen = Seen()
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=200)
    async with httpx.AsyncClient(base_url=url, timeout=_PATIENCE, limits=limits) as client:
        watching = [asyncio.create_task(_watch(client, seen)) for _ in range(streams)]
        began = time.monotonic()
        inserts = []
        for number in range(rate * seconds):
            at = began + number / rate
            await asyncio.sleep(max(0.0, at - time.monotonic()))
            inserts.append(asyncio.create_task(_insert(client, number, at, seen)))
        await asyncio.gather(*inserts)
        for watcher in watching:
            watcher.cancel()
        await asyncio.gather(*watching, return_exceptions=True)
    return seen


async def _insert(client: httpx.AsyncClient, number: int, at: float, seen: Seen) -> None:
    """What fails is sent again under its key."""
    body = "".join(json.dumps({"id": number * ROWS + n, "word": f"w{n}"}) + "\n" for n in range(ROWS))
    headers = {"Content-Type": "application/x-ndjson", "Idempotency-Key": f"load-{number}"}
    for _ in range(TRIES):
        try:
            answer = await client.post(f"{_API}/channels/events/blocks", content=body, headers=headers)
        except httpx.TransportError:
            continue
        if answer.is_success:
            seen.acknowledged.append(time.monotonic() - at)
            return
    seen.refused += 1


async def _watch(client: httpx.AsyncClient, seen: Seen) -> None:
    while True:
        try:
            async with client.stream("GET", f"{_API}/events/stream", timeout=None) as answer:
                async for line in answer.aiter_lines():
                    seen.events += line.startswith("data:")
        except httpx.TransportError:
            await asyncio.sleep(0.1)


@contextmanager
def _server(directory: Path, tell: Callable[[str], None]) -> Iterator[str]:
    """`tidemill up` as anybody would start it."""
    (directory / "tidemill.toml").write_text("[api]\nport = 8490\n")
    (directory / "workflow.py").write_text(_WORKFLOW)
    program = [str(Path(sys.executable).with_name("tidemill")), "--project", str(directory), "up"]
    tell("starting a server")
    with (directory / "up.log").open("wb") as log:
        process = subprocess.Popen(program, stdout=log, stderr=log, env={**os.environ})
    try:
        _wait(directory / "up.log", process)
        yield "http://127.0.0.1:8490"
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(_PATIENCE)


def _wait(log: Path, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + _PATIENCE
    while b" serves " not in log.read_bytes():
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"the server did not come up: {log.read_text()[-2000:]}")
        time.sleep(0.1)
