"""Server load: small inserts at a steady rate, with followers, a derived table and maintenance.

A server as `tidemill up` starts it, with Spark. Followers are clients that read the event stream, and subscribers that
receive the rows of every block of the input. A table that counts the rows by word is refreshed whenever data have
waited for `TABLE_AGE`, and maintenance compacts and collects blocks all the time. Clients and server share the machine.

Rules: every insert is acknowledged, late ones of a hundred within `ACKNOWLEDGED_MS`; after the last one every
acknowledged row is stored once, was sent to every subscriber, and is counted by the table.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from websockets.asyncio.client import connect

from benchmarks.goals import Goal, judge_goals
from benchmarks.server_process import HOST, run_server_process, wait_for_tracks, write_project
from tidemill.app.wiring import Tidemill
from tidemill.client import Client
from tidemill.model.run import RunKind
from tidemill.wire.client_sockets import format_address

ROWS = 5
"""Rows of each insert."""
CLIENTS = 64
"""Connections that send inserts."""
TRIES = 5
ACKNOWLEDGED_MS = 2000.0
TABLE_AGE = "5 seconds"
MAINTENANCE_SECONDS = 30
_API = "/api/v1"
_PATIENCE = 120.0  # seconds after the last insert for followers and the table

_SETTINGS = f"[server]\nmaintenance_interval = {MAINTENANCE_SECONDS}\n"
_WORKFLOW = f"""import tidemill as tm

wf = tm.Workflow("load")
wf.input("events", "id bigint, word string")
wf.sql("words", "SELECT word, count(*) AS n FROM events GROUP BY word", triggers=[tm.on("events", age="{TABLE_AGE}")])
"""

GOALS = (
    Goal("p99_ms", ACKNOWLEDGED_MS, "inserts are acknowledged within 2 s"),
    Goal("refused", 0, "every insert is acknowledged"),
    Goal("lost", 0, "every acknowledged row is stored, once"),
    Goal("unsent", 0, "every acknowledged row was sent to every subscriber"),
    Goal("uncounted", 0, "the derived table reflects every acknowledged row"),
)


@dataclass(slots=True)
class ClientFigures:
    """Figures of all clients."""

    acknowledged: list[float] = field(default_factory=list)  # seconds since the due time of each insert
    refused: int = 0
    events: int = 0
    received: dict[int, int] = field(default_factory=dict)  # rows, by subscriber


def measure(
    directory: Path, *, rate: int, seconds: int, streams: int, subscribers: int, on_progress: Callable[[str], None]
) -> dict[str, Any]:
    """Insert at this rate with open event streams and subscriptions."""
    port = write_project(directory, _WORKFLOW, _SETTINGS)
    on_progress("starting a server")
    with run_server_process(directory) as process:
        wait_for_tracks(directory, process)
        on_progress(f"{rate} inserts a second for {seconds} s, {streams} event streams, {subscribers} subscribers")
        began = time.monotonic()
        load = _LoadGenerator(port, rate, seconds)
        asyncio.run(load.run(streams, subscribers))
        elapsed = load.ended - began
        with Client(f"http://{HOST}:{port}") as client:
            blocks = client.channel("events").head
        figures = load.figures
        rows = len(figures.acknowledged) * ROWS
        uncounted = _wait_for_table(directory, rows)
    parameters = {"rate": rate, "seconds": seconds, "streams": streams, "subscribers": subscribers}
    measured = _summarize(figures, elapsed) | {
        "lost": rows - _count_stored_rows(directory),
        "unsent": sum(abs(rows - received) for received in figures.received.values()),
        "uncounted": uncounted,
    }
    counts = {"blocks": blocks, **_count_runs(directory)}
    return {**parameters, **measured, **counts, **judge_goals(GOALS, measured)}


def _summarize(figures: ClientFigures, elapsed: float) -> dict[str, float]:
    times = sorted(figures.acknowledged)
    return {
        "acknowledged": len(times),
        "a_second": round(len(times) / elapsed, 1),
        "p50_ms": round(times[len(times) // 2] * 1000, 1),
        "p99_ms": round(times[int(len(times) * 0.99)] * 1000, 1),
        "refused": figures.refused,
        "events": figures.events,
    }


def _wait_for_table(directory: Path, rows: int) -> int:
    """Wait until the derived table counts all rows; returns the number of rows by which it differs."""
    deadline = time.monotonic() + _PATIENCE
    with Tidemill.open(directory) as mill:
        while (counted := sum(row["n"] for row in mill.rows("words"))) != rows and time.monotonic() < deadline:
            time.sleep(1.0)
    return abs(rows - int(counted))


def _count_stored_rows(directory: Path) -> int:
    """The number of stored rows; -1 if a row is stored twice."""
    with Tidemill.open(directory) as mill:
        ids = [row["id"] for row in mill.rows("events")]
    return len(set(ids)) if len(ids) == len(set(ids)) else -1


def _count_runs(directory: Path) -> Mapping[str, int]:
    """The refreshes of the table, and the compactions that are retained in the history."""
    with Tidemill.open(directory) as mill:
        compactions = len(mill.catalog.runs.list(kind=RunKind.COMPACTION, limit=100_000))
        return {"refreshes": mill.catalog.channels.read("words").head.seq, "compactions": compactions}


@dataclass
class _LoadGenerator:
    """Sends inserts at their due times. The clients are minimal, because they share the machine with the server."""

    port: int
    rate: int
    seconds: int
    figures: ClientFigures = field(default_factory=ClientFigures)
    ended: float = 0.0  # when the last insert was acknowledged

    async def run(self, streams: int, subscribers: int) -> None:
        followers = [asyncio.create_task(self._watch_events()) for _ in range(streams)]
        subscribed = [asyncio.Event() for _ in range(subscribers)]
        followers += [asyncio.create_task(self._subscribe(n, is_open)) for n, is_open in enumerate(subscribed)]
        await asyncio.gather(*(is_open.wait() for is_open in subscribed))
        await self._send_inserts()
        self.ended = time.monotonic()
        await self._wait_for_subscribers()
        for follower in followers:
            follower.cancel()
        await asyncio.gather(*followers, return_exceptions=True)

    async def _send_inserts(self) -> None:
        queue: asyncio.Queue[tuple[int, float] | None] = asyncio.Queue()
        clients = [asyncio.create_task(self._insert_rows(queue)) for _ in range(CLIENTS)]
        began = time.monotonic()
        for number in range(self.rate * self.seconds):
            due = began + number / self.rate
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            queue.put_nowait((number, due))
        for _ in clients:
            queue.put_nowait(None)
        await asyncio.gather(*clients)

    async def _wait_for_subscribers(self) -> None:
        deadline, rows = time.monotonic() + _PATIENCE, len(self.figures.acknowledged) * ROWS
        while any(n < rows for n in self.figures.received.values()) and time.monotonic() < deadline:
            await asyncio.sleep(0.1)

    async def _subscribe(self, number: int, is_open: asyncio.Event) -> None:
        """Count the rows of all blocks; reconnect when the server ends a subscription after its time limit."""
        position, self.figures.received[number] = 0, 0
        while True:
            address = format_address(f"http://{HOST}:{self.port}", "channels", "events", "subscribe", after=position)
            async with connect(address, compression=None, max_size=None) as socket:
                await socket.recv()
                is_open.set()
                async for message in socket:
                    header, *rows = str(message).rstrip("\n").split("\n")
                    self.figures.received[number] += len(rows)
                    position = json.loads(header)["block"]

    async def _insert_rows(self, queue: asyncio.Queue[tuple[int, float] | None]) -> None:
        """Send inserts over one connection; a failed insert is retried with the same idempotency key."""
        connection = await asyncio.open_connection(HOST, self.port)
        while (item := await queue.get()) is not None:
            number, due = item
            for _ in range(TRIES):
                try:
                    status = await _send_request(connection, _build_request(self.port, number))
                except (OSError, asyncio.IncompleteReadError):
                    connection = await asyncio.open_connection(HOST, self.port)
                    continue
                if status in (200, 201):
                    self.figures.acknowledged.append(time.monotonic() - due)
                    break
            else:
                self.figures.refused += 1
        connection[1].close()

    async def _watch_events(self) -> None:
        while True:
            reader, writer = await asyncio.open_connection(HOST, self.port)
            writer.write(f"GET {_API}/events/stream HTTP/1.1\r\nHost: {HOST}:{self.port}\r\n\r\n".encode())
            while data := await reader.read(1 << 16):
                self.figures.events += data.count(b"data:")
            writer.close()


def _build_request(port: int, number: int) -> bytes:
    body = "".join(json.dumps({"id": number * ROWS + n, "word": f"w{n}"}) + "\n" for n in range(ROWS)).encode()
    head = (
        f"POST {_API}/channels/events/blocks HTTP/1.1\r\nHost: {HOST}:{port}\r\n"
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
