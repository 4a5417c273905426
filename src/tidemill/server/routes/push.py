"""Pushing events into input channels: over a socket, or by single requests."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Header, Query, Request, Response, WebSocket
from starlette.concurrency import run_in_threadpool

from tidemill.runtime.runs.push import DuplicateMessage, PushMessage
from tidemill.server import upload
from tidemill.server.batching import BatchSize
from tidemill.server.dependencies import AS_CHANNEL_OPERATOR, Mill, Name, TheInsertBatcher, TheOptions
from tidemill.server.error_handlers import Responses, build_responses
from tidemill.server.producer_socket import ProducerSocket
from tidemill.server.upload import UploadFormat
from tidemill.wire.push_messages import PushDocument, PushReplyDocument, render_reply
from tidemill.wire.refusals import UnknownFormat

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
_REPEATED: Responses = {200: {"model": PushDocument, "description": "The message was already in the channel"}}


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
) -> PushDocument:
    """Push a producer's message into an input channel; the response is sent once it is durable. One at a time."""
    if upload.find_format(request, None) is not UploadFormat.JSON_LINES:
        raise UnknownFormat("events are pushed as JSON lines; send them as application/x-ndjson")
    async with upload.receive_upload(
        request, memory_limit=options.max_message_bytes, limit=options.max_message_bytes
    ) as content:
        assert isinstance(content, bytes)  # a larger body is refused
        size = BatchSize(content.count(b"\n") + 1, len(content))
        result = await small.process_item(
            PushMessage(name, producer, number, content), max_wait=options.max_wait, size=size
        )
    repeated = isinstance(result, DuplicateMessage)
    if repeated:
        response.status_code = 200
    return PushDocument(acknowledged=number, repeated=repeated)


@router.websocket("/channels/{name}/push", dependencies=AS_CHANNEL_OPERATOR)
async def serve_producer(
    socket: WebSocket,
    mill: Mill,
    options: TheOptions,
    small: TheInsertBatcher,
    name: Name,
    producer: Annotated[str, Query(pattern=PRODUCER)],
) -> None:
    """Accept a producer's messages, and acknowledge them when they are durable."""
    await run_in_threadpool(mill.insert_batcher.inserter.get_input_channel, name)
    sequences = await run_in_threadpool(mill.catalog.channels.read_producer_sequences, name, [producer])
    await socket.accept()
    await socket.send_text(render_reply(PushReplyDocument(producer=producer, last=sequences[producer])))
    state = socket.app.state
    await ProducerSocket(socket, (name, producer), small, options, state.memory_budget, state.error_responder).serve()
