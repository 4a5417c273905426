"""Freshness targets: how fresh and how consistent a channel must be, and the delivery form for external consumers.

A channel's staleness by a pathway is the time since the oldest version of the pathway's input that it does not
reflect. A channel is inconsistent if the newest version that it reflects came after the oldest had been superseded;
its inconsistency is the time between.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from tidemill.model.provenance import Pathway

ALL_PATHWAYS = "*"
"""In a freshness target, all pathways that it does not name."""


class DeliveryForm(StrEnum):
    """The form in which an external consumer receives updates."""

    BASE = "base"  # the full content
    DELTA = "delta"  # the changes
    MONOTONE = "monotone"  # the changes, without deletions


@dataclass(frozen=True, slots=True)
class FreshnessTarget:
    """The freshness target of a channel; by default there is none."""

    lag: Mapping[str, float] = field(default_factory=dict)  # seconds, by route (`is_routed_via`) or ALL_PATHWAYS
    consistency: float | None = None  # seconds; 0: all reflected versions were current at one time; None: any
    accepts: tuple[DeliveryForm, ...] = ()  # empty: any

    def find_lag(self, pathway: Pathway) -> float | None:
        """The greatest allowed staleness by a pathway; None: unlimited. Of several matching lags the smallest counts.

        >>> target = FreshnessTarget({"pages": 60.0, "news": 0.0, ALL_PATHWAYS: 3600.0})
        >>> [target.find_lag(p) for p in (("pages",), ("pages", "news"), ("clicks", "scores"))]
        [60.0, 0.0, 3600.0]
        """
        lags = [lag for route, lag in self.lag.items() if is_routed_via(pathway, route)]
        return min(lags, default=self.lag.get(ALL_PATHWAYS))

    def __bool__(self) -> bool:
        return bool(self.lag) or self.consistency is not None or bool(self.accepts)


def is_routed_via(pathway: Pathway, route: str) -> bool:
    """Whether a pathway passes these channels in this order.

    >>> pathway = ("fetched", "successful", "top")
    >>> [is_routed_via(pathway, route) for route in ("fetched", "successful > top", "top > successful")]
    [True, True, False]
    """
    channels = iter(pathway)
    return all(channel.strip() in channels for channel in route.split(">"))


NO_TARGET = FreshnessTarget()
