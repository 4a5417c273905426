"""Pushing events into input channels: over a socket, or a request at a time."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request, Response, WebSocket
from starlette.concurrency import run_in_threadpool

from tidemill.model.access import UserRole
from tidemill.model.codec import Json
from tidemill.runtime.runs.push import DuplicateMessage, PushMessage
from tidemill.server import upload
from tidemill.server.batching import BatchSize
from tidemill.server.dependencies import Mill, Name, Smalls, TheOptions, require_role, resolve_channel_workflow
from tidemill.server.error_handlers import Responses, build_responses
from tidemill.server.producer_socket import ProducerSocket
from tidemill.server.upload import UploadFormat
from tidemill.wire.push_messages import PushDocument
from tidemill.wire.refusals import UnknownFormat

router = APIRouter(tags=["channels"])

PRODUCER = r"^[A-Za-z0-9_.:@-]{1,200}$"
Producer = Annotated[
    str, Header(alias="Tidemill-Producer", description="Who pushes: it numbers its messages.", pattern=PRODUCER)
]
Number = Annotated[
    int,
    Header(
        alias="Tidemill-Number",
        description="The message's number: one more than that of the one before, from 1 on. Repeated, it does nothing.",
        ge=1,
        le=10**18 - 1,
    ),
]
_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "description": "Events as JSON lines.",
        "content": {"application/x-ndjson": {"schema": {"type": "string", "format": "binary"}}},
    }
}
_REPEATED: Responses = {200: {"model": PushDocument, "description": "It was in the channel already"}}


@router.post(
    "/channels/{name}/events",
    status_code=201,
    response_model=PushDocument,
    responses=_REPEATED | build_responses(400, 404, 409, 413, 415),
    openapi_extra=_BODY,
    dependencies=[require_role(UserRole.OPERATOR, of=resolve_channel_workflow)],
)
async def push_message(
    request: Request,
    response: Response,
    options: TheOptions,
    small: Smalls,
    name: Name,
    producer: Producer,
    number: Number,
) -> Json:
    """Push a message of a producer's into an input channel: answered once it is durable. One at a time."""
    if upload.find_format(request, None) is not UploadFormat.JSON_LINES:
        raise UnknownFormat("events are pushed as JSON lines; send them as application/x-ndjson")
    async with upload.receive_upload(request, small=options.message, limit=options.message) as sent:
        assert isinstance(sent, bytes)  # what is larger is refused
        size = BatchSize(sent.count(b"\n") + 1, len(sent))
        done = await small.process_item(PushMessage(name, producer, number, sent), patience=options.patience, size=size)
    repeated = isinstance(done, DuplicateMessage)
    if repeated:
        response.status_code = 200
    return {"acknowledged": number, "repeated": repeated}


@router.websocket("/channels/{name}/push", dependencies=[require_role(UserRole.OPERATOR, of=resolve_channel_workflow)])
async def serve_producer(
    socket: WebSocket,
    mill: Mill,
    options: TheOptions,
    small: Smalls,
    name: Name,
    producer: Annotated[str, Query(pattern=PRODUCER)],
) -> None:
    """Take a producer's messages, and acknowledge those that are durable."""
    await run_in_threadpool(mill.gatherer.inserter.get_input_channel, name)
    known = await run_in_threadpool(mill.catalog.read_producer_sequences, name, [producer])
    await socket.accept()
    await socket.send_json({"producer": producer, "last": known[producer]}, mode="text")
    state = socket.app.state
    await ProducerSocket(socket, (name, producer), small, options, state.room, state.answers).serve()
