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
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class BatchSize:
    """The size of the waiting requests."""

    rows: int = 0
    bytes: int = 0

    def __add__(self, other: BatchSize) -> BatchSize:
        return BatchSize(self.rows + other.rows, self.bytes + other.bytes)

    def has_reached(self, limit: BatchSize) -> bool:
        return self.rows >= limit.rows or self.bytes >= limit.bytes


EMPTY_SIZE = BatchSize()


class RequestBatcher(Generic[Item, Result]):
    """Processes requests in batches: requests that arrive while a batch is processed form the next one.

    `work` is called in another thread with all waiting requests, and returns a result or an error for each. While no
    batch is processed, a request with patience waits for others, until one without patience arrives, or the batch is
    `full_size`.
    """

    def __init__(
        self,
        work: Callable[[Sequence[Item]], Sequence[Result | Exception]],
        full_size: BatchSize = BatchSize(1, 1),  # noqa: B008
    ) -> None:
        self._work = work
        self._full_size = full_size
        self._waiting: list[tuple[Item, asyncio.Future[Result]]] = []
        self._size = BatchSize()
        self._due = math.inf
        self._flush_event = asyncio.Event()  # for the next batch
        self._task: asyncio.Task[None] | None = None

    def enqueue_item(
        self, item: Item, *, max_wait: float = 0.0, size: BatchSize = EMPTY_SIZE
    ) -> asyncio.Future[Result]:
        """The future result for `item`, which may wait `max_wait` seconds for others."""
        loop = asyncio.get_running_loop()
        result: asyncio.Future[Result] = loop.create_future()
        self._waiting.append((item, result))
        self._size += size
        self._due = min(self._due, loop.time() + max_wait)
        if self._task is None:
            self._flush_event = asyncio.Event()
            self._task = asyncio.create_task(self._process_batches())
        if max_wait <= 0 or self._size.has_reached(self._full_size):
            self._flush_event.set()
        return result

    def flush_pending(self) -> None:
        """Process the waiting requests now."""
        self._flush_event.set()

    async def _wait_until_due(self) -> None:
        """Wait until the pending requests have waited long enough, or fill a batch."""
        delay = self._due - asyncio.get_running_loop().time()
        if delay > 0:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._flush_event.wait(), delay)

    async def _process_batches(self) -> None:
        try:
            while self._waiting:
                await self._wait_until_due()
                batch, self._waiting = self._waiting, []
                self._size, self._due = BatchSize(), math.inf
                self._flush_event = asyncio.Event()
                outcomes = await self._compute_answers([item for item, _ in batch])
                for (_, result), outcome in zip(batch, outcomes, strict=True):
                    _set_result(result, outcome)
        finally:
            self._task = None

    async def _compute_answers(self, items: Sequence[Item]) -> Sequence[Result | Exception]:
        try:
            outcomes = await run_in_threadpool(self._work, items)
        except Exception as error:
            return [error] * len(items)
        if len(outcomes) != len(items):  # a bug, but callers must not wait for ever
            return [RuntimeError(f"{len(outcomes)} answers to {len(items)} requests")] * len(items)
        return outcomes


def _set_result(future: asyncio.Future[Result], outcome: Result | Exception) -> None:
    if future.cancelled():  # the caller has disconnected
        return
    if isinstance(outcome, Exception):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)
