"""A producer's socket: it receives messages, and acknowledges their numbers once they are durable.

The unacknowledged messages are bounded; beyond that limit nothing is read, and the producer has to wait
(back-pressure).
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
from tidemill.runtime.runs.push import PushMessage
from tidemill.server.batching import BatchSize, RequestBatcher
from tidemill.server.body_limit import MemoryBudget
from tidemill.server.error_handlers import ErrorResponder
from tidemill.server.options import ApiOptions
from tidemill.wire.push_messages import COME_BACK, FAULT, REFUSED, parse_message

_OVERHEAD_BYTES = 512  # memory of a message besides its text: else small messages would be read far ahead


@dataclass(frozen=True, slots=True)
class _PendingMessage:
    """A message that is not yet durable."""

    number: int
    size: int
    done: asyncio.Future[Taken]


class ProducerSocket:
    """Serves one open socket until it closes, its time limit expires, or a message is refused."""

    def __init__(
        self,
        socket: WebSocket,
        to: tuple[str, str],
        batches: RequestBatcher[Wanted, Taken],
        options: ApiOptions,
        shared: MemoryBudget,
        answers: ErrorResponder,
    ) -> None:
        """`to` is the channel and the producer; `shared` the memory budget of all sockets together."""
        self._socket = socket
        self._channel, self._producer = to
        self._batches = batches
        self._options = options
        self._rooms = (MemoryBudget(options.window), shared)
        self._answers = answers
        self._waiting: deque[_PendingMessage] = deque()
        self._came = asyncio.Event()
        self._ended = False

    async def serve(self) -> None:
        reading = asyncio.create_task(self._read_messages())
        try:
            await self._acknowledge_messages()
            await reading
            await self._close_socket(COME_BACK)
        except WebSocketDisconnect:
            pass
        except Exception as error:
            await self._report_refusal(error)
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
            self._abandon_pending()

    async def _read_messages(self) -> None:
        try:
            async with asyncio.timeout(self._options.listen):
                while True:
                    await self._enqueue_message(await self._receive_message())
        except TimeoutError:
            pass  # the producer reconnects, and its token is checked again
        finally:
            self._ended = True
            self._came.set()

    async def _receive_message(self) -> bytes:
        message = await self._socket.receive()
        if message["type"] == "websocket.disconnect":
            raise WebSocketDisconnect(message.get("code", 1005))
        text: str | None = message.get("text")
        return message["bytes"] if text is None else text.encode()

    async def _enqueue_message(self, data: bytes) -> None:
        number, lines = parse_message(data)
        size = len(data) + _OVERHEAD_BYTES
        for budget in self._rooms:
            if not budget.has_space(size):
                self._batches.flush_pending()  # there will be none before the pending messages are processed
            await budget.acquire_bytes(size)
        rows = lines.count(b"\n") + 1
        message = PushMessage(self._channel, self._producer, number, lines)
        result = self._batches.enqueue_item(message, patience=self._options.patience, size=BatchSize(rows, len(lines)))
        self._waiting.append(_PendingMessage(number, size, result))
        self._came.set()

    async def _acknowledge_messages(self) -> None:
        """Acknowledge messages in order; those that became durable together with one acknowledgement."""
        while True:
            while self._waiting:
                last = self._waiting[0]
                await asyncio.shield(last.done)
                while self._waiting and _is_durable(self._waiting[0].done):
                    last = self._waiting.popleft()
                    self._release_bytes(last.size)
                await self._send_document({"acknowledged": last.number})
            if self._ended:
                return
            self._came.clear()
            await self._came.wait()

    async def _report_refusal(self, error: Exception) -> None:
        """Send the reason and the number of the refused message; no later message was accepted."""
        response = self._answers(error)
        subject = {"number": self._waiting[0].number} if self._waiting else {}
        with suppress(WebSocketDisconnect):
            await self._send_document(json.loads(bytes(response.body)) | subject)
        await self._close_socket(REFUSED if isinstance(error, BadInput) else FAULT)

    async def _send_document(self, document: Json) -> None:
        await self._socket.send_text(json.dumps(document, separators=(",", ":")))

    async def _close_socket(self, code: int) -> None:
        if self._socket.application_state is WebSocketState.CONNECTED:
            with suppress(RuntimeError):  # the client closed it first
                await self._socket.close(code)

    def _release_bytes(self, size: int) -> None:
        for budget in self._rooms:
            budget.release_bytes(size)

    def _abandon_pending(self) -> None:
        """Drop the pending messages: they may or may not become durable, and are not acknowledged."""
        for message in self._waiting:
            self._release_bytes(message.size)
            if not message.done.cancel():
                message.done.exception()  # so that asyncio does not log an unretrieved exception


def _is_durable(future: asyncio.Future[Taken]) -> bool:
    return future.done() and not future.cancelled() and future.exception() is None
