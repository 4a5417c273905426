"""Pushing events into input channels: over a socket, or by single requests."""

import asyncio
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Annotated

from fastapi import APIRouter, Header, Query, Request, Response
from starlette.concurrency import run_in_threadpool
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from tidemill.errors import BadInput
from tidemill.runtime.runs.insert_batcher import InsertRequest, InsertSuccess
from tidemill.runtime.runs.push import DuplicateMessage, PushMessage
from tidemill.server import upload
from tidemill.server.access import StreamAccess
from tidemill.server.batching import BatchSize, RequestBatcher
from tidemill.server.dependencies import (
    AS_CHANNEL_OPERATOR,
    ApiOptions,
    Mill,
    Name,
    TheInsertBatcher,
    TheOptions,
    TheStreamAccess,
)
from tidemill.server.error_handlers import ErrorResponder, Responses, build_responses
from tidemill.server.upload import MemoryBudget, UploadFormat
from tidemill.wire import push_messages as messages
from tidemill.wire.refusals import UnknownFormat
from tidemill.wire.schemas import ErrorDocument

_OVERHEAD_BYTES = 512  # memory of a message besides its text: else small messages would be read far ahead


@dataclass(frozen=True, slots=True)
class _PendingMessage:
    """A message that is not yet durable."""

    number: int
    size: int
    result: asyncio.Future[InsertSuccess]


@dataclass
class ProducerSocket:
    """Serves one open socket until it closes, its time limit expires, or a message is refused.

    It acknowledges the numbers of messages once they are durable. The unacknowledged messages are bounded; beyond that
    limit nothing is read, and the producer has to wait (back-pressure).
    """

    socket: WebSocket
    channel: str
    producer: str
    batches: RequestBatcher[InsertRequest, InsertSuccess]
    options: ApiOptions
    access: StreamAccess
    budgets: tuple[MemoryBudget, ...]  # of this socket, and of all sockets together
    responder: ErrorResponder
    _pending: deque[_PendingMessage] = field(default_factory=deque)
    _arrived: asyncio.Event = field(default_factory=asyncio.Event)
    _ended: bool = False

    async def serve(self) -> None:
        reading = asyncio.create_task(self._read_messages())
        try:
            await self._acknowledge_messages()
            await reading
            await self._close_socket(messages.CLOSE_GOING_AWAY)
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
            async with asyncio.timeout(self.options.stream_seconds):
                while True:
                    message = await self._receive_message()
                    await self.access.check()
                    await self._enqueue_message(message)
        except TimeoutError:
            pass  # the producer reconnects, and its token is checked again
        finally:
            self._ended = True
            self._arrived.set()

    async def _receive_message(self) -> bytes:
        message = await self.socket.receive()
        if message["type"] == "websocket.disconnect":
            raise WebSocketDisconnect(message.get("code", 1005))
        text: str | None = message.get("text")
        return message["bytes"] if text is None else text.encode()

    async def _enqueue_message(self, data: bytes) -> None:
        number, lines = messages.parse_message(data)
        size = len(data) + _OVERHEAD_BYTES
        for budget in self.budgets:
            if not budget.has_space(size):
                self.batches.flush_pending()  # there will be none before the pending messages are processed
            await budget.acquire_bytes(size)
        rows = lines.count(b"\n") + 1
        message = PushMessage(self.channel, self.producer, number, lines)
        result = self.batches.enqueue_item(message, max_wait=self.options.max_wait, size=BatchSize(rows, len(lines)))
        self._pending.append(_PendingMessage(number, size, result))
        self._arrived.set()

    async def _acknowledge_messages(self) -> None:
        """Acknowledge messages in order; those that became durable together with one acknowledgement."""
        while True:
            while self._pending:
                last = self._pending[0]
                await asyncio.shield(last.result)
                while self._pending and _is_durable(self._pending[0].result):
                    last = self._pending.popleft()
                    self._release_bytes(last.size)
                await self._send_reply(messages.PushReplyDocument(acknowledged=last.number))
            if self._ended:
                return
            self._arrived.clear()
            await self._arrived.wait()

    async def _report_refusal(self, error: Exception) -> None:
        """Send the reason and the number of the refused message; no later message was accepted."""
        document = ErrorDocument.model_validate_json(bytes(self.responder(error).body))
        number = self._pending[0].number if self._pending else None
        with suppress(WebSocketDisconnect):
            await self._send_reply(messages.PushReplyDocument(error=document.error, number=number))
        is_invalid = isinstance(error, BadInput)
        await self._close_socket(messages.CLOSE_POLICY_VIOLATION if is_invalid else messages.CLOSE_INTERNAL_ERROR)

    async def _send_reply(self, reply: messages.PushReplyDocument) -> None:
        await self.socket.send_text(messages.render_reply(reply))

    async def _close_socket(self, code: int) -> None:
        if self.socket.application_state is WebSocketState.CONNECTED:
            with suppress(RuntimeError):  # the client closed it first
                await self.socket.close(code)

    def _release_bytes(self, size: int) -> None:
        for budget in self.budgets:
            budget.release_bytes(size)

    def _abandon_pending(self) -> None:
        """Drop the pending messages: they may or may not become durable, and are not acknowledged."""
        for message in self._pending:
            self._release_bytes(message.size)
            if not message.result.cancel():
                message.result.exception()  # so that asyncio does not log an unretrieved exception


def _is_durable(future: asyncio.Future[InsertSuccess]) -> bool:
    return future.done() and not future.cancelled() and future.exception() is None


router = APIRouter(tags=["channels"])

PRODUCER = r"^[A-Za-z0-9_.:@-]{1,200}$"
Producer = Annotated[
    str, Header(alias="Tidemill-Producer", description="The producer, which numbers its messages.", pattern=PRODUCER)
]
Number = Annotated[
    int,
    Header(
        alias="Tidemill-Number",
        description="The message's number: consecutive, starting at 1. A repeated number does nothing.",
        ge=1,
        le=10**18 - 1,
    ),
]
_BODY = upload.describe_body("Events as JSON lines.", "application/x-ndjson")
_REPEATED: Responses = {200: {"model": messages.PushDocument, "description": "The message was already in the channel"}}


@router.post(
    "/channels/{name}/events",
    status_code=201,
    responses=_REPEATED | build_responses(400, 404, 409, 413, 415),
    openapi_extra=_BODY,
    dependencies=AS_CHANNEL_OPERATOR,
)
async def push_message(
    request: Request,
    response: Response,
    options: TheOptions,
    small: TheInsertBatcher,
    name: Name,
    producer: Producer,
    number: Number,
) -> messages.PushDocument:
    """Push a producer's message into an input channel; the response is sent once it is durable. One at a time."""
    if upload.find_format(request, None) is not UploadFormat.JSON_LINES:
        raise UnknownFormat("events are pushed as JSON lines; send them as application/x-ndjson")
    async with upload.receive_upload(
        request, memory_limit=options.max_message_bytes, limit=options.max_message_bytes
    ) as content:
        assert isinstance(content, bytes)  # a larger body is refused
        size = BatchSize(content.count(b"\n") + 1, len(content))
        result = await small.enqueue_item(
            PushMessage(name, producer, number, content), max_wait=options.max_wait, size=size
        )
    repeated = isinstance(result, DuplicateMessage)
    if repeated:
        response.status_code = 200
    return messages.PushDocument(acknowledged=number, repeated=repeated)


@router.websocket("/channels/{name}/push", dependencies=AS_CHANNEL_OPERATOR)
async def serve_producer(
    socket: WebSocket,
    mill: Mill,
    options: TheOptions,
    small: TheInsertBatcher,
    access: TheStreamAccess,
    name: Name,
    producer: Annotated[str, Query(pattern=PRODUCER)],
) -> None:
    """Accept a producer's messages, and acknowledge them when they are durable."""
    await run_in_threadpool(mill.insert_batcher.inserter.get_input_channel, name)
    sequences = await run_in_threadpool(mill.catalog.channels.read_producer_sequences, name, [producer])
    await socket.accept()
    greeting = messages.PushReplyDocument(producer=producer, last=sequences[producer])
    await socket.send_text(messages.render_reply(greeting))
    state = socket.app.state
    budgets = MemoryBudget(options.max_unacknowledged_bytes), state.memory_budget
    await ProducerSocket(socket, name, producer, small, options, access, budgets, state.error_responder).serve()
