"""One follower's socket: the rows of each new block, from a position on."""

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
"""Answers how far channels can be read: one look at each for all who ask at the same time."""


@dataclass(frozen=True, slots=True)
class SubscriberSocket:
    """Serves one socket, which is open. Blocks are read as the follower takes them: a slow one slows down itself."""

    socket: WebSocket
    mill: Tidemill
    channel: str
    selection: RowSelection
    options: ApiOptions
    heads: Heads

    async def serve(self, at: int) -> None:
        """Tell what comes after `at`, until the follower goes or the time is up: it comes back with its position."""
        until = time.monotonic() + self.options.listen
        gone = asyncio.create_task(self.socket.receive())  # a follower says nothing but good-bye
        try:
            while not gone.done() and not self.socket.app.state.ending:
                at = await self._send_blocks(at, gone)
                if time.monotonic() >= until:
                    return
                await asyncio.wait({gone}, timeout=self.options.look)
        finally:
            gone.cancel()
            await asyncio.gather(gone, return_exceptions=True)

    async def _send_blocks(self, at: int, gone: asyncio.Task[object]) -> int:
        """Everything that there is after `at`; returns how far that went."""
        head = await self.heads.process_item(self.channel)
        while at < head and not gone.done():
            block = await run_in_threadpool(find_next_block, self.mill.catalog, self.channel, at, head)
            async for piece in iterate_in_threadpool(
                split_into_chunks(block, self.mill.store.open_file, self.selection)
            ):
                await self.socket.send_text(piece.to_text())
            at = block.seq
        return at
