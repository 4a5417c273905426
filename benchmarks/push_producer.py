"""One producer of `bench push`, a process of its own so that it can be killed. It imports little, to start fast.

It sends event n at its time, whatever became of those before, and keeps a journal: a line for each acknowledgement,
with the number acknowledged and, for each event that it covers, the milliseconds since the event was due and since it
was sent. Started again, it goes on after what the channel has.
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

_AGAIN = 0.2  # seconds until a lost connection is tried again
_HANGING = 15.0  # seconds without an answer after which it counts as lost


@dataclass(slots=True)
class Producer:
    """What it is to do, and how far it has come."""

    url: str
    name: int
    rate: float  # events a second
    events: int  # in all
    start: float  # by the clock, when the first is due
    journal: int  # a file's number
    last: int = 0  # the newest that was acknowledged
    sent: deque[tuple[int, float]] = field(default_factory=deque)  # numbers not acknowledged, and when they were sent

    def due(self, number: int) -> float:
        return self.start + (number - 1) / self.rate

    async def run(self) -> None:
        while self.last < self.events:
            try:
                async with connect(self.url, compression=None, open_timeout=_HANGING, proxy=None) as socket:
                    await self._connected(socket)
            except (ConnectionClosed, InvalidHandshake, OSError, TimeoutError):
                await asyncio.sleep(_AGAIN)

    async def _connected(self, socket: ClientConnection) -> None:
        self.last = json.loads(await socket.recv())["last"]
        self.sent.clear()
        sending = asyncio.create_task(self._send(socket))
        try:
            while self.last < self.events:
                async with asyncio.timeout(_HANGING):
                    self._hear(json.loads(await socket.recv()))
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

    def _hear(self, said: dict[str, Any]) -> None:
        if "error" in said:
            raise OSError(said["error"]["message"])
        self.last = max(self.last, said["acknowledged"])
        now, times = time.time(), list[str]()
        while self.sent and self.sent[0][0] <= self.last:
            number, sent = self.sent.popleft()
            times.append(f"{(now - self.due(number)) * 1000:.0f}:{(now - sent) * 1000:.0f}")
        os.write(self.journal, f"{self.last} {' '.join(times)}\n".encode())


def main(url: str, name: str, rate: str, events: str, start: str, journal: str) -> None:
    kept = os.open(journal, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    asyncio.run(Producer(url, int(name), float(rate), int(events), float(start), kept).run())


if __name__ == "__main__":
    main(*sys.argv[1:])
