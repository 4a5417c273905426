"""Requests are processed in batches: each gets its own answer, and none waits forever."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

import pytest

from tidemill.server.batching import BatchSize, RequestBatcher


class Work:
    """Doubles even numbers, once it is allowed to, and rejects odd ones."""

    def __init__(self) -> None:
        self.allowed = threading.Event()
        self.batches: list[list[int]] = []

    def __call__(self, items: Sequence[int]) -> list[int | Exception]:
        self.allowed.wait(10)
        self.batches.append(list(items))
        return [2 * item if item % 2 == 0 else ValueError(item) for item in items]


def test_requests_that_arrive_during_a_batch_form_the_next() -> None:
    work = Work()

    async def process_all() -> list[int]:
        batches = RequestBatcher(work)
        first = batches.enqueue_item(0)
        await asyncio.sleep(0)
        rest = [batches.enqueue_item(n) for n in (2, 4, 6)]
        await asyncio.sleep(0)
        work.allowed.set()
        return list(await asyncio.gather(first, *rest))

    assert asyncio.run(process_all()) == [0, 4, 8, 12]
    assert work.batches == [[0], [2, 4, 6]]


def test_an_error_is_raised_only_for_its_request() -> None:
    work = Work()
    work.allowed.set()

    async def process_three() -> list[int | BaseException]:
        batches = RequestBatcher(work)
        return list(await asyncio.gather(*(batches.enqueue_item(n) for n in (2, 3, 4)), return_exceptions=True))

    two, three, four = asyncio.run(process_three())
    assert (two, four) == (4, 8)
    assert isinstance(three, ValueError)


def test_a_failed_batch_fails_all_its_requests_but_not_the_next() -> None:
    fails = [True]

    def work(items: Sequence[int]) -> list[int]:
        if fails.pop() if fails else False:
            raise OSError("disk full")
        return list(items)

    async def process_twice() -> int:
        batches = RequestBatcher(work)
        with pytest.raises(OSError, match="disk full"):
            await batches.enqueue_item(1)
        return await batches.enqueue_item(2)

    assert asyncio.run(process_twice()) == 2


def test_a_cancelled_request_does_not_delay_the_others() -> None:
    work = Work()

    async def cancel_one() -> int:
        batches = RequestBatcher(work)
        cancelled = batches.enqueue_item(2)
        remaining = batches.enqueue_item(4)
        await asyncio.sleep(0)
        cancelled.cancel()
        work.allowed.set()
        return await remaining

    assert asyncio.run(cancel_one()) == 8


def test_too_few_answers_fail_every_request() -> None:
    async def process_two() -> list[int | BaseException]:
        batches: RequestBatcher[int, int] = RequestBatcher(lambda items: list(items)[1:])
        return list(await asyncio.gather(batches.enqueue_item(1), batches.enqueue_item(2), return_exceptions=True))

    assert [type(answer) for answer in asyncio.run(process_two())] == [RuntimeError] * 2


LONG = 60.0  # seconds: longer than any test may take


def process_patiently(*sizes: BatchSize, hurried: bool = False) -> list[list[int]]:
    """The batches in which items of these sizes are processed if each may wait for long."""
    work = Work()
    work.allowed.set()

    async def process_all() -> None:
        batches = RequestBatcher(work, full_size=BatchSize(rows=10, bytes=1000))
        futures = [batches.enqueue_item(2 * n, max_wait=LONG, size=size) for n, size in enumerate(sizes)]
        await asyncio.sleep(0)
        assert work.batches == []
        if hurried:
            futures.append(batches.enqueue_item(100))
        async with asyncio.timeout(LONG / 2):
            await asyncio.gather(*futures)

    asyncio.run(process_all())
    return work.batches


def test_patient_requests_wait_for_a_full_batch() -> None:
    assert process_patiently(BatchSize(4, 1), BatchSize(4, 1), BatchSize(4, 1)) == [[0, 2, 4]]
    assert process_patiently(BatchSize(1, 500), BatchSize(1, 500)) == [[0, 2]]


def test_a_request_that_cannot_wait_starts_the_batch() -> None:
    assert process_patiently(BatchSize(1, 1), BatchSize(1, 1), hurried=True) == [[0, 2, 100]]


def test_a_request_waits_no_longer_than_its_limit() -> None:
    work = Work()
    work.allowed.set()

    async def process_one() -> int:
        return await RequestBatcher(work, full_size=BatchSize(10, 10)).enqueue_item(2, max_wait=0.01)

    assert asyncio.run(process_one()) == 4
