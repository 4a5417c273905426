"""Where hubs send what is published. A hub shows who it is by the address that only it knows, and by signatures."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping
from typing import Annotated

from fastapi import APIRouter, Header, Query, Request, Response
from fastapi.responses import PlainTextResponse
from starlette.concurrency import run_in_threadpool

from tidemill.app.sources import format_lease_name
from tidemill.errors import NotFound
from tidemill.intake.sources import WebSubSource, compute_renewal, to_json_lines
from tidemill.intake.sources.websub import PREFIX
from tidemill.runtime.runs.insert_batcher import SmallInsert
from tidemill.server.dependencies import Mill, Smalls

log = logging.getLogger("tidemill.sources")

router = APIRouter(prefix=PREFIX.rstrip("/"), include_in_schema=False)

_HUB = "hub"  # who grants the lease


def _find_subscription(request: Request) -> WebSubSource:
    known: Mapping[str, WebSubSource] = request.app.state.subscriptions
    found = known.get(request.url.path)
    if found is None:
        raise NotFound("there is no such subscription")
    return found


@router.get("/{name}/{code}")
async def verify_subscription(
    request: Request,
    mill: Mill,
    mode: Annotated[str, Query(alias="hub.mode")],
    topic: Annotated[str, Query(alias="hub.topic")],
    challenge: Annotated[str, Query(alias="hub.challenge", max_length=1000)] = "",
    granted: Annotated[int, Query(alias="hub.lease_seconds", ge=1, le=10 * 365 * 86_400)] = 86_400,
    reason: Annotated[str, Query(alias="hub.reason", max_length=1000)] = "",
) -> Response:
    """The hub asks whether it was we who asked, or says that it will not send."""
    asked = _find_subscription(request)
    if mode == "denied":
        log.error("source %s: the hub will not send: %r", asked.name, reason)
        return Response(status_code=200)
    if not asked.is_intended(mode, topic):
        raise NotFound("nobody here asked for that")
    await run_in_threadpool(mill.catalog.acquire_lease, format_lease_name(asked), _HUB, lease=compute_renewal(granted))
    log.info("source %s: the hub sends for %d s", asked.name, granted)
    return PlainTextResponse(challenge)


@router.post("/{name}/{code}")
async def receive_content(
    request: Request,
    small: Smalls,
    media: Annotated[str, Header(alias="Content-Type")] = "",
    signature: Annotated[str | None, Header(alias="X-Hub-Signature")] = None,
) -> Response:
    """Take what was published, once it is durable. Unsigned, it is answered alike and left out: so says WebSub."""
    asked = _find_subscription(request)
    body = await request.body()
    if not asked.is_signed(body, signature):
        log.warning("source %s: what came was not signed by the hub, and was left out", asked.name)
        return Response(status_code=202)
    key = f"websub:{hashlib.sha256(body).hexdigest()}"
    await small.process_item(SmallInsert(asked.channel, to_json_lines(body, media), "jsonl", key))
    return Response(status_code=204)
