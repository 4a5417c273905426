"""One producer's socket: messages come in, numbers go out once what has them is durable.

What was read and not acknowledged is bounded; beyond that nothing is read, and the producer has to wait.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from contextlib import suppress
from dataclasses import dataclass

from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from tidemill.errors import BadInput
from tidemill.model.codec import Json
from tidemill.runtime.runs.insert_batcher import Taken, Wanted
from tidemill.runtime.runs.push import Message
from tidemill.server.batching import Batches, Size
from tidemill.server.body_limit import Room
from tidemill.server.error_handlers import Answers
from tidemill.server.options import Options
from tidemill.wire.push_messages import COME_BACK, FAULT, REFUSED, parsed

_BESIDES = 512  # bytes that a message takes besides its own: else small ones would be read far ahead


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A message that is not yet durable."""

    number: int
    size: int
    done: asyncio.Future[Taken]


class Pushing:
    """Serves one socket, which is open, until it closes, its time is up, or a message is refused."""

    def __init__(
        self,
        socket: WebSocket,
        to: tuple[str, str],
        batches: Batches[Wanted, Taken],
        options: Options,
        shared: Room,
        answers: Answers,
    ) -> None:
        """`to` is the channel and the producer; `shared` the room that all sockets have together."""
        self._socket = socket
        self._channel, self._producer = to
        self._batches = batches
        self._options = options
        self._rooms = (Room(options.window), shared)
        self._answers = answers
        self._waiting: deque[_Waiting] = deque()
        self._came = asyncio.Event()
        self._ended = False

    async def serve(self) -> None:
        reading = asyncio.create_task(self._read())
        try:
            await self._acknowledge()
            await reading
            await self._close(COME_BACK)
        except WebSocketDisconnect:
            pass
        except Exception as error:
            await self._refuse(error)
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
            self._leave()

    async def _read(self) -> None:
        try:
            async with asyncio.timeout(self._options.listen):
                while True:
                    await self._take(await self._received())
        except TimeoutError:
            pass  # the producer comes back, with a token that is checked anew
        finally:
            self._ended = True
            self._came.set()

    async def _received(self) -> bytes:
        message = await self._socket.receive()
        if message["type"] == "websocket.disconnect":
            raise WebSocketDisconnect(message.get("code", 1005))
        text: str | None = message.get("text")
        return message["bytes"] if text is None else text.encode()

    async def _take(self, data: bytes) -> None:
        number, lines = parsed(data)
        size = len(data) + _BESIDES
        for room in self._rooms:
            if not room.has(size):
                self._batches.hurry()  # there will be none before what waits is done
            await room.take(size)
        rows = lines.count(b"\n") + 1
        message = Message(self._channel, self._producer, number, lines)
        done = self._batches.put(message, patience=self._options.patience, size=Size(rows, len(lines)))
        self._waiting.append(_Waiting(number, size, done))
        self._came.set()

    async def _acknowledge(self) -> None:
        """In the order in which messages came; those that became durable together in one go."""
        while True:
            while self._waiting:
                last = self._waiting[0]
                await asyncio.shield(last.done)
                while self._waiting and _is_durable(self._waiting[0].done):
                    last = self._waiting.popleft()
                    self._give(last.size)
                await self._send({"acknowledged": last.number})
            if self._ended:
                return
            self._came.clear()
            await self._came.wait()

    async def _refuse(self, error: Exception) -> None:
        """Say why, and which message it is about; nothing after it was taken."""
        answer = self._answers(error)
        about = {"number": self._waiting[0].number} if self._waiting else {}
        with suppress(WebSocketDisconnect):
            await self._send(json.loads(bytes(answer.body)) | about)
        await self._close(REFUSED if isinstance(error, BadInput) else FAULT)

    async def _send(self, document: Json) -> None:
        await self._socket.send_text(json.dumps(document, separators=(",", ":")))

    async def _close(self, code: int) -> None:
        if self._socket.application_state is WebSocketState.CONNECTED:
            with suppress(RuntimeError):  # the other end was faster
                await self._socket.close(code)

    def _give(self, size: int) -> None:
        for room in self._rooms:
            room.give(size)

    def _leave(self) -> None:
        """What still waits may become durable or not: nobody is told."""
        for one in self._waiting:
            self._give(one.size)
            if not one.done.cancel():
                one.done.exception()  # so that nobody complains that it was never looked at


def _is_durable(done: asyncio.Future[Taken]) -> bool:
    return done.done() and not done.cancelled() and done.exception() is None
