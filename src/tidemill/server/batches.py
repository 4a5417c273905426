"""Work that costs little more for many requests than for one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from starlette.concurrency import run_in_threadpool

Item = TypeVar("Item")
Done = TypeVar("Done")


class Batches(Generic[Item, Done]):
    """Does what requests ask for: while some of it is being done others wait, and all who wait are next.

    `work` is called in another thread with everything that waits, and gives an answer to each, perhaps an error.
    """

    def __init__(self, work: Callable[[Sequence[Item]], Sequence[Done | Exception]]) -> None:
        self._work = work
        self._waiting: list[tuple[Item, asyncio.Future[Done]]] = []
        self._busy: asyncio.Task[None] | None = None

    async def add(self, item: Item) -> Done:
        """The answer to `item`."""
        done: asyncio.Future[Done] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, done))
        if self._busy is None:
            self._busy = asyncio.create_task(self._do())
        return await done

    async def _do(self) -> None:
        try:
            while self._waiting:
                batch, self._waiting = self._waiting, []
                answers = await self._answers([item for item, _ in batch])
                for (_, done), answer in zip(batch, answers, strict=True):
                    _tell(done, answer)
        finally:
            self._busy = None

    async def _answers(self, items: Sequence[Item]) -> Sequence[Done | Exception]:
        try:
            answers = await run_in_threadpool(self._work, items)
        except Exception as error:
            return [error] * len(items)
        if len(answers) != len(items):  # a fault, but nobody shall wait for ever for it
            return [RuntimeError(f"{len(answers)} answers to {len(items)} requests")] * len(items)
        return answers


def _tell(done: asyncio.Future[Done], answer: Done | Exception) -> None:
    if done.cancelled():  # whoever asked has gone
        return
    if isinstance(answer, Exception):
        done.set_exception(answer)
    else:
        done.set_result(answer)
