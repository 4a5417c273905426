"""One producer of `benchmarks push`, a separate process so that it can be killed. It imports little, to start fast.

It sends event n at its due time, independent of earlier events, and writes a journal: a line for each acknowledgement,
with the acknowledged number and, for each event that it covers, the milliseconds since the event was due and since it
was sent. After a restart it continues after the last event of the channel.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake

_RETRY_DELAY = 0.2  # seconds until a lost connection is retried
_TIMEOUT = 15.0  # seconds without an answer after which the connection counts as lost


@dataclass(slots=True)
class Producer:
    """A producer's task and its progress."""

    url: str
    name: int
    rate: float  # events a second
    events: int  # in total
    start: float  # due time of the first event
    journal: int  # file descriptor
    last: int = 0  # the newest acknowledged number
    sent: deque[tuple[int, float]] = field(default_factory=deque)  # unacknowledged numbers and their times of sending

    def due(self, number: int) -> float:
        return self.start + (number - 1) / self.rate

    async def run(self) -> None:
        while self.last < self.events:
            try:
                async with connect(self.url, compression=None, open_timeout=_TIMEOUT, proxy=None) as socket:
                    await self._run_connection(socket)
            except (ConnectionClosed, InvalidHandshake, OSError, TimeoutError):
                await asyncio.sleep(_RETRY_DELAY)

    async def _run_connection(self, socket: ClientConnection) -> None:
        self.last = json.loads(await socket.recv())["last"]
        self.sent.clear()
        sending = asyncio.create_task(self._send(socket))
        try:
            while self.last < self.events:
                async with asyncio.timeout(_TIMEOUT):
                    self._record_acknowledgement(json.loads(await socket.recv()))
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)

    async def _send(self, socket: ClientConnection) -> None:
        for number in range(self.last + 1, self.events + 1):
            wait = self.due(number) - time.time()
            if wait > 0:
                await asyncio.sleep(wait)
            self.sent.append((number, time.time()))
            await socket.send(f'{number}\n{{"producer":{self.name},"n":{number},"word":"small"}}')

    def _record_acknowledgement(self, message: dict[str, Any]) -> None:
        if "error" in message:
            raise OSError(message["error"]["message"])
        self.last = max(self.last, message["acknowledged"])
        now, times = time.time(), list[str]()
        while self.sent and self.sent[0][0] <= self.last:
            number, sent = self.sent.popleft()
            times.append(f"{(now - self.due(number)) * 1000:.0f}:{(now - sent) * 1000:.0f}")
        os.write(self.journal, f"{self.last} {' '.join(times)}\n".encode())


def main(url: str, name: str, rate: str, events: str, start: str, journal: str) -> None:
    descriptor = os.open(journal, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    asyncio.run(Producer(url, int(name), float(rate), int(events), float(start), descriptor).run())


if __name__ == "__main__":
    main(*sys.argv[1:])
