"""Callbacks of WebSub hubs. A hub is authenticated by a secret address and by signatures."""

import hashlib
import logging
from collections.abc import Mapping
from typing import Annotated

from fastapi import APIRouter, Header, Query, Request, Response
from fastapi.responses import PlainTextResponse
from starlette.concurrency import run_in_threadpool

from tidemill.app.sources import format_lease_name
from tidemill.errors import NotFound
from tidemill.intake.sources.websub import CALLBACK_PREFIX, WebSubSource, compute_renewal, to_json_lines
from tidemill.runtime.runs.insert_batcher import SmallInsert
from tidemill.server.dependencies import Mill, TheInsertBatcher

log = logging.getLogger("tidemill.sources")

router = APIRouter(prefix=CALLBACK_PREFIX.rstrip("/"), include_in_schema=False)

_HUB = "hub"  # the holder of the lease


def _find_subscription(request: Request) -> WebSubSource:
    subscriptions: Mapping[str, WebSubSource] = request.app.state.subscriptions
    subscription = subscriptions.get(request.url.path)
    if subscription is None:
        raise NotFound("there is no such subscription")
    return subscription


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
    """Verify a subscription that the hub asks about, or log that the hub denied it."""
    subscription = _find_subscription(request)
    if mode == "denied":
        log.error("source %s: the hub denied the subscription: %r", subscription.name, reason)
        return Response(status_code=200)
    if not subscription.is_intended(mode, topic):
        raise NotFound("this subscription was not requested")
    await run_in_threadpool(
        mill.catalog.servers.acquire_lease, format_lease_name(subscription), _HUB, lease=compute_renewal(granted)
    )
    log.info("source %s: the hub granted the subscription for %d s", subscription.name, granted)
    return PlainTextResponse(challenge)


@router.post("/{name}/{code}")
async def receive_content(
    request: Request,
    small: TheInsertBatcher,
    media: Annotated[str, Header(alias="Content-Type")] = "",
    signature: Annotated[str | None, Header(alias="X-Hub-Signature")] = None,
) -> Response:
    """Insert published content; the response is sent once it is durable. Unsigned content is acknowledged and ignored,
    as WebSub requires.
    """
    subscription = _find_subscription(request)
    body = await request.body()
    if not subscription.is_signed(body, signature):
        log.warning("source %s: received content that the hub did not sign; it was ignored", subscription.name)
        return Response(status_code=202)
    key = f"websub:{hashlib.sha256(body).hexdigest()}"
    await small.enqueue_item(SmallInsert(subscription.channel, to_json_lines(body, media), "jsonl", key))
    return Response(status_code=204)
