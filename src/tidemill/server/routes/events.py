"""Events: what happened, in its order; once, or as it happens."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from typing import Annotated

import anyio
from fastapi import APIRouter, Header, Query, Request
from fastapi.sse import EventSourceResponse, ServerSentEvent
from starlette.concurrency import run_in_threadpool

from tidemill import documents
from tidemill.app import Tidemill
from tidemill.catalog.pages import last_event, newest_events
from tidemill.model.access import Role
from tidemill.model.codec import Json
from tidemill.ports import Event
from tidemill.server.doors import Mill, TheOptions, needs
from tidemill.server.parameters import After, Limit
from tidemill.wire import shapes

router = APIRouter(tags=["events"], dependencies=[needs(Role.VIEWER)])
streams = APIRouter(tags=["events"], dependencies=[needs(Role.VIEWER)])

_PAGE = 500
_RETRY = 1000  # milliseconds after which a browser comes back


@router.get("/events", response_model=shapes.Events)
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
    return {"events": [documents.event(e) for e in found]}


@streams.get("/events/stream", response_class=EventSourceResponse)
async def stream(
    request: Request,
    mill: Mill,
    options: TheOptions,
    after: After = None,
    seen: Annotated[int | None, Header(alias="Last-Event-ID", ge=0, le=2**63 - 1)] = None,
) -> AsyncIterator[ServerSentEvent]:
    """Tell what happens, as it happens, after `Last-Event-ID`, or `after`, or from now on.

    The stream ends after some minutes; whoever wants more comes back with the last number seen and misses nothing.
    """
    last = seen if seen is not None else after
    at = await run_in_threadpool(last_event, mill.catalog) if last is None else last
    yield ServerSentEvent(comment="from here on", id=str(at), retry=_RETRY)
    until = time.monotonic() + options.listen
    async for event in _following(mill, at, options.look, lambda: _over(request, until)):
        yield ServerSentEvent(data=documents.event(event), event=event.kind, id=str(event.id))


async def _following(mill: Tidemill, at: int, look: float, over: Callable[[], bool]) -> AsyncIterator[Event]:
    while True:
        found = await run_in_threadpool(_events, mill, at)
        for event in found:
            yield event
            at = event.id
        if over():
            return
        if not found:
            await anyio.sleep(look)


def _over(request: Request, until: float) -> bool:
    """Time is up, or the server is about to end."""
    return bool(request.app.state.ending) or time.monotonic() >= until


def _events(mill: Tidemill, after: int) -> list[Event]:
    return mill.catalog.events(after=after, limit=_PAGE)
