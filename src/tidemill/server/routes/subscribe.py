"""Subscriptions to channels."""

import asyncio
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Query
from starlette.concurrency import run_in_threadpool
from starlette.websockets import WebSocket, WebSocketDisconnect

from tidemill.encoding.block_rows import RowSelection
from tidemill.errors import BadInput
from tidemill.server.access import StreamAccess
from tidemill.server.batching import RequestBatcher
from tidemill.server.dependencies import AS_VIEWER, ApiOptions, Mill, Name, TheOptions, TheStreamAccess
from tidemill.server.shared_blocks import SharedBlocks
from tidemill.wire.push_messages import CLOSE_GOING_AWAY, CLOSE_INTERNAL_ERROR
from tidemill.wire.subscribe_client import SubscriptionDocument

Heads = RequestBatcher[str, int]
"""Returns the head positions of channels: one read for all concurrent requests."""


@dataclass(frozen=True, slots=True)
class SubscriberSocket:
    """Serves one open socket. Blocks are read at the subscriber's pace, so a slow one only delays itself."""

    socket: WebSocket
    channel: str
    selection: RowSelection
    options: ApiOptions
    access: StreamAccess
    heads: Heads
    blocks: SharedBlocks

    async def serve(self, position: int) -> None:
        """Send blocks after `position` until the subscriber disconnects or the time limit expires: it reconnects."""
        until = time.monotonic() + self.options.stream_seconds
        disconnect = asyncio.create_task(self.socket.receive())  # a subscriber only sends its disconnect
        try:
            while not disconnect.done() and not self.socket.app.state.is_stopping:
                await self.access.check()
                position = await self._send_blocks(position, disconnect)
                if time.monotonic() >= until:
                    return
                await asyncio.wait({disconnect}, timeout=self.options.poll_interval)
        finally:
            disconnect.cancel()
            await asyncio.gather(disconnect, return_exceptions=True)

    async def _send_blocks(self, position: int, disconnect: asyncio.Task[object]) -> int:
        """Send all existing blocks after `position`; returns the last position sent."""
        head = await self.heads.enqueue_item(self.channel)
        while position < head and not disconnect.done():
            block = await self.blocks.find_next(self.channel, position, head)
            async for message in self.blocks.list_messages(block, self.selection):
                await self.socket.send_text(message)
            position = block.seq
        return position


router = APIRouter(tags=["channels"], dependencies=AS_VIEWER)


@router.websocket("/channels/{name}/subscribe")
async def subscribe_channel(
    socket: WebSocket,
    mill: Mill,
    options: TheOptions,
    access: TheStreamAccess,
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
    head = registered.head.seq
    position = head if after is None else after
    if position > head:
        raise BadInput(
            f"channel {name!r} ends at block {head}, so no block follows {after}; "
            f"subscribe after {head} or an earlier block"
        )
    await socket.accept()
    await socket.send_text(SubscriptionDocument(channel=name, after=position).model_dump_json())
    state = socket.app.state
    with suppress(WebSocketDisconnect):
        try:
            subscriber = SubscriberSocket(socket, name, selection, options, access, state.heads, state.blocks)
            await subscriber.serve(position)
            await socket.close(CLOSE_GOING_AWAY)
        except WebSocketDisconnect:
            raise
        except Exception as error:
            await socket.send_text(bytes(state.error_responder(error).body).decode())
            await socket.close(CLOSE_INTERNAL_ERROR)
