"""Blocks that many subscribers receive at about the same time: each is looked up, read and encoded once."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Hashable
from typing import BinaryIO, Generic, TypeVar

from starlette.concurrency import iterate_in_threadpool, run_in_threadpool

from tidemill.encoding.block_rows import RowSelection, split_into_chunks
from tidemill.model.block import Block, BlockKind
from tidemill.ports.catalog import BlockQueries
from tidemill.runtime.inspect.change_feed import find_next_block

SHARED_BLOCKS = 64
"""The number of newest blocks whose messages are kept."""
MAX_SHARED_BYTES = 32 << 10
"""The size of a block's files up to which its messages are kept; each subscriber reads larger ones at its own pace."""

Result = TypeVar("Result")


class SharedResults(Generic[Result]):
    """Computes the result for a key once, for all callers while it is among the newest `capacity` results.

    An error is raised to the callers that waited for it, and is not kept. Used in one event loop.
    """

    def __init__(self, capacity: int = SHARED_BLOCKS) -> None:
        self._capacity = capacity
        self._tasks: OrderedDict[Hashable, asyncio.Task[Result]] = OrderedDict()

    async def compute_once(self, key: Hashable, compute: Callable[[], Result]) -> Result:
        task = self._tasks.get(key)
        if task is None:
            task = self._tasks[key] = asyncio.create_task(run_in_threadpool(compute))
            if len(self._tasks) > self._capacity:
                self._tasks.popitem(last=False)
        try:
            return await asyncio.shield(task)  # one caller that disconnects does not cancel it for the others
        except Exception:
            self._tasks.pop(key, None)
            raise


class SharedBlocks:
    """The next blocks after positions of channels, and their messages, for all subscribers of a server."""

    def __init__(self, blocks: BlockQueries, open_file: Callable[[str], BinaryIO]) -> None:
        self._blocks = blocks
        self._open_file = open_file
        self._next: SharedResults[Block] = SharedResults()
        self._messages: SharedResults[list[str]] = SharedResults()

    async def find_next(self, channel: str, position: int, head: int) -> Block:
        """The block that continues from a position. A delta that was found continues from it for later callers, too."""
        block = await self._next.compute_once(
            (channel, position), lambda: find_next_block(self._blocks, channel, position, head)
        )
        if block.kind is BlockKind.DELTA and block.seq <= head:
            return block
        return await run_in_threadpool(find_next_block, self._blocks, channel, position, head)

    async def list_messages(self, block: Block, selection: RowSelection) -> AsyncIterator[str]:
        """The messages of a block, one for each chunk of rows."""
        if sum(file.bytes for file in block.files) > MAX_SHARED_BYTES:
            async for chunk in iterate_in_threadpool(split_into_chunks(block, self._open_file, selection)):
                yield chunk.to_text()
            return
        for message in await self._messages.compute_once(
            (block.id, selection), lambda: self._encode_block(block, selection)
        ):
            yield message

    def _encode_block(self, block: Block, selection: RowSelection) -> list[str]:
        return [chunk.to_text() for chunk in split_into_chunks(block, self._open_file, selection)]
