"""One follower's socket: the rows of each new block, from a position on."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

from starlette.concurrency import iterate_in_threadpool, run_in_threadpool
from starlette.websockets import WebSocket

from tidemill.app.wiring import Tidemill
from tidemill.encoding.block_rows import Selection, pieces
from tidemill.runtime.inspect.change_feed import following
from tidemill.server.batching import Batches
from tidemill.server.options import Options

Heads = Batches[str, int]
"""Answers how far channels can be read: one look at each for all who ask at the same time."""


@dataclass(frozen=True, slots=True)
class Following:
    """Serves one socket, which is open. Blocks are read as the follower takes them: a slow one slows down itself."""

    socket: WebSocket
    mill: Tidemill
    channel: str
    selection: Selection
    options: Options
    heads: Heads

    async def serve(self, at: int) -> None:
        """Tell what comes after `at`, until the follower goes or the time is up: it comes back with its position."""
        until = time.monotonic() + self.options.listen
        gone = asyncio.create_task(self.socket.receive())  # a follower says nothing but good-bye
        try:
            while not gone.done() and not self.socket.app.state.ending:
                at = await self._tell(at, gone)
                if time.monotonic() >= until:
                    return
                await asyncio.wait({gone}, timeout=self.options.look)
        finally:
            gone.cancel()
            await asyncio.gather(gone, return_exceptions=True)

    async def _tell(self, at: int, gone: asyncio.Task[object]) -> int:
        """Everything that there is after `at`; returns how far that went."""
        head = await self.heads.add(self.channel)
        while at < head and not gone.done():
            block = await run_in_threadpool(following, self.mill.catalog, self.channel, at, head)
            async for piece in iterate_in_threadpool(pieces(block, self.mill.store.open, self.selection)):
                await self.socket.send_text(piece.text())
            at = block.seq
        return at
