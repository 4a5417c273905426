"""Work for many at once: each has its own answer, and nobody waits for ever."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

import pytest

from tidemill.server.batching import BatchSize, RequestBatcher


class Work:
    """Doubles numbers, once it may; refuses odd ones."""

    def __init__(self) -> None:
        self.may = threading.Event()
        self.batches: list[list[int]] = []

    def __call__(self, items: Sequence[int]) -> list[int | Exception]:
        self.may.wait(10)
        self.batches.append(list(items))
        return [2 * item if item % 2 == 0 else ValueError(item) for item in items]


def test_what_comes_while_work_is_under_way_goes_together() -> None:
    work = Work()

    async def all_of_them() -> list[int]:
        batches = RequestBatcher(work)
        first = asyncio.create_task(batches.process_item(0))
        await asyncio.sleep(0)
        rest = [asyncio.create_task(batches.process_item(n)) for n in (2, 4, 6)]
        await asyncio.sleep(0)
        work.may.set()
        return list(await asyncio.gather(first, *rest))

    assert asyncio.run(all_of_them()) == [0, 4, 8, 12]
    assert work.batches == [[0], [2, 4, 6]]


def test_an_error_is_told_to_whom_it_concerns() -> None:
    work = Work()
    work.may.set()

    async def three() -> list[int | BaseException]:
        batches = RequestBatcher(work)
        return list(await asyncio.gather(*(batches.process_item(n) for n in (2, 3, 4)), return_exceptions=True))

    two, three_, four = asyncio.run(three())
    assert (two, four) == (4, 8)
    assert isinstance(three_, ValueError)


def test_work_that_fails_is_told_to_all_and_the_next_is_done() -> None:
    fails = [True]

    def work(items: Sequence[int]) -> list[int]:
        if fails.pop() if fails else False:
            raise OSError("disk full")
        return list(items)

    async def again() -> int:
        batches = RequestBatcher(work)
        with pytest.raises(OSError, match="disk full"):
            await batches.process_item(1)
        return await batches.process_item(2)

    assert asyncio.run(again()) == 2


def test_who_left_is_not_waited_for() -> None:
    work = Work()

    async def one_leaves() -> int:
        batches = RequestBatcher(work)
        leaving = asyncio.create_task(batches.process_item(2))
        staying = asyncio.create_task(batches.process_item(4))
        await asyncio.sleep(0)
        leaving.cancel()
        work.may.set()
        return await staying

    assert asyncio.run(one_leaves()) == 8


def test_too_few_answers_leave_nobody_waiting() -> None:
    async def two() -> list[int | BaseException]:
        batches: RequestBatcher[int, int] = RequestBatcher(lambda items: list(items)[1:])
        return list(await asyncio.gather(batches.process_item(1), batches.process_item(2), return_exceptions=True))

    assert [type(answer) for answer in asyncio.run(two())] == [RuntimeError] * 2


LONG = 60.0  # seconds: whoever waited for it would be noticed


def patiently(*sizes: BatchSize, hurried: bool = False) -> list[list[int]]:
    """The batches in which items of these sizes are done, each of which could wait for long."""
    work = Work()
    work.may.set()

    async def all_of_them() -> None:
        batches = RequestBatcher(work, full_size=BatchSize(rows=10, bytes=1000))
        waiting = [batches.enqueue_item(2 * n, max_wait=LONG, size=size) for n, size in enumerate(sizes)]
        await asyncio.sleep(0)
        assert work.batches == []
        if hurried:
            waiting.append(batches.enqueue_item(100))
        async with asyncio.timeout(LONG / 2):
            await asyncio.gather(*waiting)

    asyncio.run(all_of_them())
    return work.batches


def test_who_has_patience_waits_until_there_is_enough() -> None:
    assert patiently(BatchSize(4, 1), BatchSize(4, 1), BatchSize(4, 1)) == [[0, 2, 4]]
    assert patiently(BatchSize(1, 500), BatchSize(1, 500)) == [[0, 2]]


def test_who_has_none_takes_all_others_along() -> None:
    assert patiently(BatchSize(1, 1), BatchSize(1, 1), hurried=True) == [[0, 2, 100]]


def test_patience_comes_to_an_end() -> None:
    work = Work()
    work.may.set()

    async def one() -> int:
        return await RequestBatcher(work, full_size=BatchSize(10, 10)).process_item(2, max_wait=0.01)

    assert asyncio.run(one()) == 4
