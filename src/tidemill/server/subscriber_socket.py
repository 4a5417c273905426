"""A subscriber's socket: the rows of each new block after a position."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

from starlette.concurrency import iterate_in_threadpool, run_in_threadpool
from starlette.websockets import WebSocket

from tidemill.app.wiring import Tidemill
from tidemill.encoding.block_rows import RowSelection, split_into_chunks
from tidemill.runtime.inspect.change_feed import find_next_block
from tidemill.server.batching import RequestBatcher
from tidemill.server.options import ApiOptions

Heads = RequestBatcher[str, int]
"""Returns the head positions of channels: one read for all concurrent requests."""


@dataclass(frozen=True, slots=True)
class SubscriberSocket:
    """Serves one open socket. Blocks are read at the subscriber's pace, so a slow one only delays itself."""

    socket: WebSocket
    mill: Tidemill
    channel: str
    selection: RowSelection
    options: ApiOptions
    heads: Heads

    async def serve(self, position: int) -> None:
        """Send blocks after `position` until the subscriber disconnects or the time limit expires; it reconnects at its
        position.
        """
        until = time.monotonic() + self.options.stream_seconds
        disconnect = asyncio.create_task(self.socket.receive())  # a subscriber only sends its disconnect
        try:
            while not disconnect.done() and not self.socket.app.state.is_stopping:
                position = await self._send_blocks(position, disconnect)
                if time.monotonic() >= until:
                    return
                await asyncio.wait({disconnect}, timeout=self.options.poll_interval)
        finally:
            disconnect.cancel()
            await asyncio.gather(disconnect, return_exceptions=True)

    async def _send_blocks(self, position: int, disconnect: asyncio.Task[object]) -> int:
        """Send all existing blocks after `position`; returns the last position sent."""
        head = await self.heads.process_item(self.channel)
        while position < head and not disconnect.done():
            block = await run_in_threadpool(find_next_block, self.mill.catalog.blocks, self.channel, position, head)
            async for chunk in iterate_in_threadpool(
                split_into_chunks(block, self.mill.store.open_file, self.selection)
            ):
                await self.socket.send_text(chunk.to_text())
            position = block.seq
        return position
