"""Room for what has come and is not yet done: who would need more has to wait."""

from __future__ import annotations

import asyncio


class Room:
    """Of so many bytes. What is larger than all of it is let in alone. Lives in one event loop."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._taken = 0
        self._given = asyncio.Event()  # whenever some is given back it is set, and another takes its place

    def has(self, size: int) -> bool:
        return not self._taken or self._taken + size <= self._size

    async def take(self, size: int) -> None:
        while not self.has(size):
            await self._given.wait()
        self._taken += size

    def give(self, size: int) -> None:
        self._taken -= size
        self._given.set()
        self._given = asyncio.Event()
