"""Subscriptions to channels."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated

from fastapi import APIRouter, Query, WebSocket
from starlette.concurrency import run_in_threadpool
from starlette.websockets import WebSocketDisconnect

from tidemill.encoding.block_rows import RowSelection
from tidemill.server.dependencies import AS_VIEWER, Mill, Name, TheOptions
from tidemill.server.subscriber_socket import SubscriberSocket
from tidemill.wire.push_messages import CLOSE_GOING_AWAY, CLOSE_INTERNAL_ERROR
from tidemill.wire.subscribe_client import SubscriptionDocument

router = APIRouter(tags=["channels"], dependencies=AS_VIEWER)


@router.websocket("/channels/{name}/subscribe")
async def subscribe_channel(
    socket: WebSocket,
    mill: Mill,
    options: TheOptions,
    name: Name,
    after: Annotated[int | None, Query(ge=0, le=2**63 - 1)] = None,
    columns: Annotated[str | None, Query(max_length=10_000)] = None,
    where: Annotated[list[str] | None, Query(max_length=100)] = None,
) -> None:
    """Send the rows of each new block: those after a position, or from now on."""
    selection = RowSelection.from_texts(columns, where or ())
    registered = await run_in_threadpool(mill.catalog.channels.read, name)
    if registered.channel.schema is not None:
        selection.check_columns(name, registered.channel.schema)
    position = registered.head.seq if after is None else after
    await socket.accept()
    await socket.send_text(SubscriptionDocument(channel=name, after=position).model_dump_json())
    state = socket.app.state
    with suppress(WebSocketDisconnect):
        try:
            await SubscriberSocket(socket, mill, name, selection, options, state.heads).serve(position)
            await socket.close(CLOSE_GOING_AWAY)
        except WebSocketDisconnect:
            raise
        except Exception as error:
            await socket.send_text(bytes(state.error_responder(error).body).decode())
            await socket.close(CLOSE_INTERNAL_ERROR)
