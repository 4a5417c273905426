"""Timing on noisy machines: alternate the compared actions, and compare medians."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from statistics import median


def time_alternately(actions: Mapping[str, Callable[[], object]], rounds: int, warm_up: int = 1) -> dict[str, float]:
    """Median seconds of each action, measured in turns so that a slow minute affects all of them equally."""
    seconds: dict[str, list[float]] = {name: [] for name in actions}
    for number in range(warm_up + rounds):
        for name, action in actions.items():
            began = time.perf_counter()
            action()
            if number >= warm_up:
                seconds[name].append(time.perf_counter() - began)
    return {name: median(times) for name, times in seconds.items()}


class TimedProxy:
    """A proxy of an object that counts the calls of its methods and their seconds."""

    def __init__(self, inner: object) -> None:
        self._inner = inner
        self.seconds = 0.0
        self.calls = 0

    def __getattr__(self, name: str) -> object:
        value = getattr(self._inner, name)
        if not callable(value):
            return value

        def call(*args: object, **kwargs: object) -> object:
            began = time.perf_counter()
            try:
                return value(*args, **kwargs)
            finally:
                self.seconds += time.perf_counter() - began
                self.calls += 1

        return call
