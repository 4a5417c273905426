"""Staleness as an integral: how far a table was behind, over time, from data time alone."""

from __future__ import annotations


def area(since: float, until: float, fresh: float) -> float:
    """The integral of staleness over a stretch of time in which freshness stood still."""
    return (until - since) * ((since + until) / 2 - fresh)
