"""Pushing events into input channels: over a socket, or a request at a time."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request, Response, WebSocket
from starlette.concurrency import run_in_threadpool

from tidemill.model.access import Role
from tidemill.model.codec import Json
from tidemill.runtime.runs.push import Message, Repeated
from tidemill.server import upload
from tidemill.server.batching import Size
from tidemill.server.dependencies import Mill, Name, Smalls, TheOptions, channels_workflow, needs
from tidemill.server.error_handlers import Responses, answers
from tidemill.server.producer_socket import Pushing
from tidemill.server.upload import Format
from tidemill.wire.push_messages import Pushed
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
_REPEATED: Responses = {200: {"model": Pushed, "description": "It was in the channel already"}}


@router.post(
    "/channels/{name}/events",
    status_code=201,
    response_model=Pushed,
    responses=_REPEATED | answers(400, 404, 409, 413, 415),
    openapi_extra=_BODY,
    dependencies=[needs(Role.OPERATOR, of=channels_workflow)],
)
async def push(
    request: Request,
    response: Response,
    options: TheOptions,
    small: Smalls,
    name: Name,
    producer: Producer,
    number: Number,
) -> Json:
    """Push a message of a producer's into an input channel: answered once it is durable. One at a time."""
    if upload.format_of(request, None) is not Format.JSON_LINES:
        raise UnknownFormat("events are pushed as JSON lines; send them as application/x-ndjson")
    async with upload.received(request, small=options.message, limit=options.message) as sent:
        assert isinstance(sent, bytes)  # what is larger is refused
        size = Size(sent.count(b"\n") + 1, len(sent))
        done = await small.add(Message(name, producer, number, sent), patience=options.patience, size=size)
    repeated = isinstance(done, Repeated)
    if repeated:
        response.status_code = 200
    return {"acknowledged": number, "repeated": repeated}


@router.websocket("/channels/{name}/push", dependencies=[needs(Role.OPERATOR, of=channels_workflow)])
async def pushing(
    socket: WebSocket,
    mill: Mill,
    options: TheOptions,
    small: Smalls,
    name: Name,
    producer: Annotated[str, Query(pattern=PRODUCER)],
) -> None:
    """Take a producer's messages, and acknowledge those that are durable."""
    await run_in_threadpool(mill.gatherer.inserter.fed, name)
    known = await run_in_threadpool(mill.catalog.producers, name, [producer])
    await socket.accept()
    await socket.send_json({"producer": producer, "last": known[producer]}, mode="text")
    state = socket.app.state
    await Pushing(socket, (name, producer), small, options, state.room, state.answers).serve()
