"""Timing on noisy machines: alternate what is compared, and compare medians."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from statistics import median


def alternately(ways: Mapping[str, Callable[[], object]], rounds: int, warm_up: int = 1) -> dict[str, float]:
    """Median seconds of each way, measured in turns so that a slow minute hits them all alike."""
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(warm_up + rounds):
        for name, way in ways.items():
            began = time.perf_counter()
            way()
            if number >= warm_up:
                taken[name].append(time.perf_counter() - began)
    return {name: median(times) for name, times in taken.items()}


class Timed:
    """Stands in for an object and counts the seconds and calls that its methods take."""

    def __init__(self, inner: object) -> None:
        self._inner = inner
        self.seconds = 0.0
        self.calls = 0

    def __getattr__(self, name: str) -> object:
        found = getattr(self._inner, name)
        if not callable(found):
            return found

        def timed(*args: object, **kwargs: object) -> object:
            began = time.perf_counter()
            try:
                return found(*args, **kwargs)
            finally:
                self.seconds += time.perf_counter() - began
                self.calls += 1

        return timed
