"""Promises: how fresh and how consistent a channel is kept, and in which form those outside take it.

A channel is stale by a pathway for as long as there has been a version of the pathway's input that it does not
reflect. It is inconsistent if the newest version that it reflects came after the oldest had been superseded: by the
time between.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

EVERY = "*"
"""In a promise, all inputs that it does not name."""


class Form(StrEnum):
    """In which form somebody outside takes what is new."""

    BASE = "base"  # the whole content
    DELTA = "delta"  # what changed
    MONOTONE = "monotone"  # what changed, and nothing is ever taken back


@dataclass(frozen=True, slots=True)
class Promise:
    """What is promised of a channel; nothing, unless said."""

    lag: Mapping[str, float] = field(default_factory=dict)  # seconds, by input channel, or for EVERY other one
    consistency: float | None = None  # seconds; 0: all that is reflected was there at one moment; None: any
    accepts: tuple[Form, ...] = ()  # none: any

    def lag_of(self, channel: str) -> float | None:
        """How stale the channel may be by any pathway from this input; None: as stale as it may happen.

        >>> Promise({"pages": 0.0, EVERY: 60.0}).lag_of("clicks")
        60.0
        """
        return self.lag.get(channel, self.lag.get(EVERY))

    def __bool__(self) -> bool:
        return bool(self.lag) or self.consistency is not None or bool(self.accepts)


NONE = Promise()
