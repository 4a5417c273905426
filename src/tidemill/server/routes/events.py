"""Events: what happened, in its order; once, or as it happens."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from typing import Annotated

from fastapi import APIRouter, Header, Query, Request
from fastapi.responses import StreamingResponse
from fastapi.sse import format_sse_event
from starlette.concurrency import run_in_threadpool

from tidemill.app import serialization
from tidemill.catalog.pagination import last_event, newest_events
from tidemill.model.access import Role
from tidemill.model.codec import Json
from tidemill.server.dependencies import After, Limit, Mill, TheFeed, TheOptions, needs
from tidemill.server.error_handlers import Responses
from tidemill.server.feed import Feed
from tidemill.wire import schemas

router = APIRouter(tags=["events"], dependencies=[needs(Role.VIEWER)])
streams = APIRouter(tags=["events"], dependencies=[needs(Role.VIEWER)])

_MEDIA = "text/event-stream"
_TEXT: Json = {"type": "string"}
_SENT: Json = {
    "type": "object",
    "properties": {"data": _TEXT, "event": _TEXT, "id": _TEXT, "retry": {"type": "integer"}},
}
_STREAM: Responses = {200: {"description": "Each event, as JSON in `data`", "content": {_MEDIA: {"itemSchema": _SENT}}}}
_RETRY = 1000  # milliseconds after which a browser comes back


@router.get("/events", response_model=schemas.Events)
def events(
    mill: Mill,
    after: After = None,
    run: Annotated[int | None, Query(description="Only of this run.", ge=1, le=2**63 - 1)] = None,
    limit: Limit = 50,
) -> Json:
    """List what happened after an event, in its order; else the newest."""
    if after is None and run is None:
        found = newest_events(mill.catalog, limit)
    else:
        found = mill.catalog.events(after=after or 0, run=run, limit=limit)
    return {"events": [serialization.event(e) for e in found]}


@streams.get("/events/stream", response_class=StreamingResponse, responses=_STREAM)
async def stream(
    request: Request,
    mill: Mill,
    options: TheOptions,
    feed: TheFeed,
    after: After = None,
    seen: Annotated[int | None, Header(alias="Last-Event-ID", ge=0, le=2**63 - 1)] = None,
) -> StreamingResponse:
    """Tell what happens, as it happens, after `Last-Event-ID`, or `after`, or from now on.

    The stream ends after some minutes; whoever wants more comes back with the last number seen and misses nothing.
    """
    last = seen if seen is not None else after
    at = await run_in_threadpool(last_event, mill.catalog) if last is None else last
    until = time.monotonic() + options.listen
    return StreamingResponse(_told(feed, at, lambda: _over(request, until)), media_type=_MEDIA)


async def _told(feed: Feed, at: int, over: Callable[[], bool]) -> AsyncIterator[bytes]:
    yield format_sse_event(comment="from here on", id=str(at), retry=_RETRY)
    async for events in feed.follow(at, over):
        yield events


def _over(request: Request, until: float) -> bool:
    """Time is up, or the server is about to end."""
    return bool(request.app.state.ending) or time.monotonic() >= until
