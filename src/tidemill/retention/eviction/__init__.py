"""Eviction algorithms: choose the datasets to delete when space is short."""

from tidemill.retention.eviction.baselines import (
    GreedyDual,
    LeastFrequentlyUsed,
    LeastRecentlyUsed,
    RandomEviction,
    Rematerialisation,
)
from tidemill.retention.eviction.store import EvictionAlgorithm
from tidemill.retention.eviction.two_sided import ChainAwareEviction, HitDensityEviction, TwoSidedEviction

ALGORITHMS: dict[str, type[EvictionAlgorithm]] = {
    "hit-density": HitDensityEviction,
    "two-sided": TwoSidedEviction,
    "chain-aware": ChainAwareEviction,
    "h-dtr": Rematerialisation,
    "gdsf": GreedyDual,
    "lru": LeastRecentlyUsed,
    "lfu": LeastFrequentlyUsed,
    "random": RandomEviction,
}
DEFAULT = "hit-density"

__all__ = ["ALGORITHMS", "DEFAULT", "EvictionAlgorithm"]
