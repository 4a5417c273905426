"""Batching of requests whose cost hardly depends on their number."""

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
    """The size of the waiting requests."""

    rows: int = 0
    bytes: int = 0

    def __add__(self, other: BatchSize) -> BatchSize:
        return BatchSize(self.rows + other.rows, self.bytes + other.bytes)

    def has_reached(self, full: BatchSize) -> bool:
        return self.rows >= full.rows or self.bytes >= full.bytes


class RequestBatcher(Generic[Item, Done]):
    """Processes requests in batches: requests that arrive while a batch is processed form the next one.

    `work` is called in another thread with all waiting requests, and returns a result or an error for each. While no
    batch is processed, a request with patience waits for others, until one without patience arrives, or the batch is
    `full`.
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
        self._hurry = asyncio.Event()  # for the next batch
        self._busy: asyncio.Task[None] | None = None

    async def process_item(self, item: Item, *, patience: float = 0.0, size: BatchSize = BatchSize()) -> Done:  # noqa: B008
        """The result for `item`, which may wait `patience` seconds for others."""
        return await self.enqueue_item(item, patience=patience, size=size)

    def enqueue_item(self, item: Item, *, patience: float = 0.0, size: BatchSize = BatchSize()) -> asyncio.Future[Done]:  # noqa: B008
        loop = asyncio.get_running_loop()
        result: asyncio.Future[Done] = loop.create_future()
        self._waiting.append((item, result))
        self._size += size
        self._due = min(self._due, loop.time() + patience)
        if self._busy is None:
            self._hurry = asyncio.Event()
            self._busy = asyncio.create_task(self._process_batches())
        if patience <= 0 or self._size.has_reached(self._full):
            self._hurry.set()
        return result

    def flush_pending(self) -> None:
        """Process the waiting requests now."""
        self._hurry.set()

    async def _wait_until_due(self) -> None:
        """Wait until the pending requests have waited long enough, or fill a batch."""
        delay = self._due - asyncio.get_running_loop().time()
        if delay > 0:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._hurry.wait(), delay)

    async def _process_batches(self) -> None:
        try:
            while self._waiting:
                await self._wait_until_due()
                batch, self._waiting = self._waiting, []
                self._size, self._due = BatchSize(), math.inf
                self._hurry = asyncio.Event()
                outcomes = await self._compute_answers([item for item, _ in batch])
                for (_, result), outcome in zip(batch, outcomes, strict=True):
                    _set_result(result, outcome)
        finally:
            self._busy = None

    async def _compute_answers(self, items: Sequence[Item]) -> Sequence[Done | Exception]:
        try:
            outcomes = await run_in_threadpool(self._work, items)
        except Exception as error:
            return [error] * len(items)
        if len(outcomes) != len(items):  # a bug, but callers must not wait for ever
            return [RuntimeError(f"{len(outcomes)} answers to {len(items)} requests")] * len(items)
        return outcomes


def _set_result(future: asyncio.Future[Done], outcome: Done | Exception) -> None:
    if future.cancelled():  # the caller has disconnected
        return
    if isinstance(outcome, Exception):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)
