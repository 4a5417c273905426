"""Work that concurrent subscribers share."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest

from tidemill.server.shared_blocks import SharedResults


class Counter:
    """A computation that waits until it may end, and counts its calls."""

    def __init__(self) -> None:
        self.calls = 0
        self.may_end = threading.Event()

    def compute(self) -> int:
        self.calls += 1
        assert self.may_end.wait(10)
        return self.calls


def test_concurrent_and_later_callers_share_one_result() -> None:
    counter = Counter()

    async def call() -> list[int]:
        shared: SharedResults[int] = SharedResults()
        calls = [asyncio.create_task(shared.compute_once("key", counter.compute)) for _ in range(5)]
        await asyncio.sleep(0.01)
        calls.pop().cancel()  # a caller that disconnects
        counter.may_end.set()
        return [*await asyncio.gather(*calls), await shared.compute_once("key", counter.compute)]

    assert asyncio.run(call()) == [1] * 5


def test_an_error_is_raised_to_all_and_not_kept() -> None:
    answers: list[Callable[[], int]] = [lambda: 1 // 0, lambda: 7]

    async def call() -> tuple[list[object], int]:
        shared: SharedResults[int] = SharedResults()
        failed = await asyncio.gather(
            *(shared.compute_once("key", answers[0]) for _ in range(3)), return_exceptions=True
        )
        return failed, await shared.compute_once("key", answers[1])

    failed, later = asyncio.run(call())
    assert [type(error) for error in failed] == [ZeroDivisionError] * 3
    assert later == 7


@pytest.mark.parametrize(("capacity", "calls"), [(1, 3), (2, 2)])
def test_only_the_newest_results_are_kept(capacity: int, calls: int) -> None:
    counter = Counter()
    counter.may_end.set()

    async def call() -> None:
        shared: SharedResults[int] = SharedResults(capacity)
        for key in ("a", "b", "a"):
            await shared.compute_once(key, counter.compute)

    asyncio.run(call())
    assert counter.calls == calls
