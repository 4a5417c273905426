"""Promises: how fresh and how consistent a channel is kept, and in which form those outside take it.

A channel is stale by a pathway for as long as there has been a version of the pathway's input that it does not
reflect. It is inconsistent if the newest version that it reflects came after the oldest had been superseded: by the
time between.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from tidemill.model.provenance import Pathway

EVERY = "*"
"""In a promise, all pathways that it does not name."""


class DeliveryForm(StrEnum):
    """In which form somebody outside takes what is new."""

    BASE = "base"  # the whole content
    DELTA = "delta"  # what changed
    MONOTONE = "monotone"  # what changed, and nothing is ever taken back


@dataclass(frozen=True, slots=True)
class FreshnessTarget:
    """What is promised of a channel; nothing, unless said."""

    lag: Mapping[str, float] = field(default_factory=dict)  # seconds, by way (see `goes`), or for EVERY other one
    consistency: float | None = None  # seconds; 0: all that is reflected was there at one moment; None: any
    accepts: tuple[DeliveryForm, ...] = ()  # none: any

    def find_lag(self, pathway: Pathway) -> float | None:
        """How stale the channel may be by a pathway; None: as stale as it may happen. All that is promised holds.

        >>> promise = FreshnessTarget({"pages": 60.0, "news": 0.0, EVERY: 3600.0})
        >>> [promise.find_lag(p) for p in (("pages",), ("pages", "news"), ("clicks", "scores"))]
        [60.0, 0.0, 3600.0]
        """
        named = [lag for way, lag in self.lag.items() if is_routed_via(pathway, way)]
        return min(named, default=self.lag.get(EVERY))

    def __bool__(self) -> bool:
        return bool(self.lag) or self.consistency is not None or bool(self.accepts)


def is_routed_via(pathway: Pathway, way: str) -> bool:
    """Does a pathway go by way of these channels, in this order?

    >>> pathway = ("fetched", "successful", "top")
    >>> [is_routed_via(pathway, way) for way in ("fetched", "successful > top", "top > successful")]
    [True, True, False]
    """
    rest = iter(pathway)
    return all(channel.strip() in rest for channel in way.split(">"))


NONE = FreshnessTarget()
