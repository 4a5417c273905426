"""Work that costs little more for many requests than for one."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Generic, TypeVar

from starlette.concurrency import run_in_threadpool

Item = TypeVar("Item")
Done = TypeVar("Done")


@dataclass(frozen=True, slots=True)
class BatchSize:
    """Of what waits."""

    rows: int = 0
    bytes: int = 0

    def __add__(self, other: BatchSize) -> BatchSize:
        return BatchSize(self.rows + other.rows, self.bytes + other.bytes)

    def has_reached(self, full: BatchSize) -> bool:
        return self.rows >= full.rows or self.bytes >= full.bytes


class RequestBatcher(Generic[Item, Done]):
    """Does what requests ask for: while some of it is being done others wait, and all who wait are next.

    `work` is called in another thread with everything that waits, and gives an answer to each, perhaps an error.
    Who has patience waits for others, too, while nothing is being done; but only until somebody has none, or there is
    enough to be `full`.
    """

    def __init__(
        self,
        work: Callable[[Sequence[Item]], Sequence[Done | Exception]],
        full: BatchSize = BatchSize(1, 1),  # noqa: B008
    ) -> None:
        self._work = work
        self._full = full
        self._waiting: list[tuple[Item, asyncio.Future[Done]]] = []
        self._size = BatchSize()
        self._due = math.inf
        self._hurry = asyncio.Event()  # of the next batch
        self._busy: asyncio.Task[None] | None = None

    async def process_item(self, item: Item, *, patience: float = 0.0, size: BatchSize = BatchSize()) -> Done:  # noqa: B008
        """The answer to `item`, for which somebody can wait so many seconds."""
        return await self.enqueue_item(item, patience=patience, size=size)

    def enqueue_item(self, item: Item, *, patience: float = 0.0, size: BatchSize = BatchSize()) -> asyncio.Future[Done]:  # noqa: B008
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Done] = loop.create_future()
        self._waiting.append((item, done))
        self._size += size
        self._due = min(self._due, loop.time() + patience)
        if self._busy is None:
            self._hurry = asyncio.Event()
            self._busy = asyncio.create_task(self._process_batches())
        if patience <= 0 or self._size.has_reached(self._full):
            self._hurry.set()
        return done

    def flush_pending(self) -> None:
        """Nobody has patience any longer."""
        self._hurry.set()

    async def _wait_until_due(self) -> None:
        """Returns when what waits has waited long enough, or is enough."""
        wait = self._due - asyncio.get_running_loop().time()
        if wait > 0:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._hurry.wait(), wait)

    async def _process_batches(self) -> None:
        try:
            while self._waiting:
                await self._wait_until_due()
                batch, self._waiting = self._waiting, []
                self._size, self._due = BatchSize(), math.inf
                self._hurry = asyncio.Event()
                answers = await self._compute_answers([item for item, _ in batch])
                for (_, done), answer in zip(batch, answers, strict=True):
                    _set_result(done, answer)
        finally:
            self._busy = None

    async def _compute_answers(self, items: Sequence[Item]) -> Sequence[Done | Exception]:
        try:
            answers = await run_in_threadpool(self._work, items)
        except Exception as error:
            return [error] * len(items)
        if len(answers) != len(items):  # a fault, but nobody shall wait for ever for it
            return [RuntimeError(f"{len(answers)} answers to {len(items)} requests")] * len(items)
        return answers


def _set_result(done: asyncio.Future[Done], answer: Done | Exception) -> None:
    if done.cancelled():  # whoever asked has gone
        return
    if isinstance(answer, Exception):
        done.set_exception(answer)
    else:
        done.set_result(answer)
