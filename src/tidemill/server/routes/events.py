"""Events in order: as a list, or as a stream."""

import time
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Annotated

from fastapi import APIRouter, Header, Query, Request
from fastapi.responses import StreamingResponse
from fastapi.sse import format_sse_event
from starlette.concurrency import run_in_threadpool

from tidemill.errors import BadInput
from tidemill.model.codec import Json
from tidemill.server.dependencies import AS_VIEWER, After, Limit, Mill, TheFeed, TheOptions, TheStreamAccess
from tidemill.server.error_handlers import Responses
from tidemill.wire import schemas
from tidemill.wire.refusals import Forbidden, Unidentified

router = APIRouter(tags=["events"], dependencies=AS_VIEWER)
streams = APIRouter(tags=["events"], dependencies=AS_VIEWER)

_MEDIA = "text/event-stream"
_TEXT: Json = {"type": "string"}
_SSE_SCHEMA: Json = {
    "type": "object",
    "properties": {"data": _TEXT, "event": _TEXT, "id": _TEXT, "retry": {"type": "integer"}},
}
_STREAM: Responses = {
    200: {"description": "Each event, as JSON in `data`", "content": {_MEDIA: {"itemSchema": _SSE_SCHEMA}}}
}
_RETRY = 1000  # milliseconds after which a browser reconnects


@router.get("/events")
def list_events(
    mill: Mill,
    after: After = None,
    run: Annotated[int | None, Query(description="Only of this run.", ge=1, le=2**63 - 1)] = None,
    limit: Limit = 50,
) -> schemas.EventListDocument:
    """List events after a number, in order; else the newest."""
    return schemas.EventListDocument.build(events=mill.list_events(after=after, run=run, limit=limit))


@streams.get("/events/stream", response_class=StreamingResponse, responses=_STREAM)
async def stream_events(
    request: Request,
    mill: Mill,
    options: TheOptions,
    feed: TheFeed,
    access: TheStreamAccess,
    after: After = None,
    last_event_id: Annotated[int | None, Header(alias="Last-Event-ID", ge=0, le=2**63 - 1)] = None,
) -> StreamingResponse:
    """Stream events as they happen, after `Last-Event-ID`, or `after`, or from now on.

    The stream ends after some minutes; a client that reconnects with the last number seen misses nothing.
    """
    last = await run_in_threadpool(mill.catalog.events.read_last_id)
    position = next((number for number in (last_event_id, after) if number is not None), last)
    if position > last:
        raise BadInput(f"the last event is {last}, so none follows {position}; stream after {last} or an earlier event")
    until = time.monotonic() + options.stream_seconds

    def is_over() -> bool:
        return bool(request.app.state.is_stopping) or time.monotonic() >= until

    async def format_stream() -> AsyncIterator[bytes]:
        yield format_sse_event(comment="start of stream", id=str(position), retry=_RETRY)
        with suppress(Unidentified, Forbidden):  # a client that connects again learns the reason
            async for events in feed.stream_events(position, is_over):
                await access.check()
                yield events

    return StreamingResponse(format_stream(), media_type=_MEDIA)
