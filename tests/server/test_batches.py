"""Work for many at once: each has its own answer, and nobody waits for ever."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

import pytest

from tidemill.server.batches import Batches


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
        batches = Batches(work)
        first = asyncio.create_task(batches.add(0))
        await asyncio.sleep(0)
        rest = [asyncio.create_task(batches.add(n)) for n in (2, 4, 6)]
        await asyncio.sleep(0)
        work.may.set()
        return list(await asyncio.gather(first, *rest))

    assert asyncio.run(all_of_them()) == [0, 4, 8, 12]
    assert work.batches == [[0], [2, 4, 6]]


def test_an_error_is_told_to_whom_it_concerns() -> None:
    work = Work()
    work.may.set()

    async def three() -> list[int | BaseException]:
        batches = Batches(work)
        return list(await asyncio.gather(*(batches.add(n) for n in (2, 3, 4)), return_exceptions=True))

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
        batches = Batches(work)
        with pytest.raises(OSError, match="disk full"):
            await batches.add(1)
        return await batches.add(2)

    assert asyncio.run(again()) == 2


def test_who_left_is_not_waited_for() -> None:
    work = Work()

    async def one_leaves() -> int:
        batches = Batches(work)
        leaving = asyncio.create_task(batches.add(2))
        staying = asyncio.create_task(batches.add(4))
        await asyncio.sleep(0)
        leaving.cancel()
        work.may.set()
        return await staying

    assert asyncio.run(one_leaves()) == 8


def test_too_few_answers_leave_nobody_waiting() -> None:
    async def two() -> list[int | BaseException]:
        batches: Batches[int, int] = Batches(lambda items: list(items)[1:])
        return list(await asyncio.gather(batches.add(1), batches.add(2), return_exceptions=True))

    assert [type(answer) for answer in asyncio.run(two())] == [RuntimeError] * 2
