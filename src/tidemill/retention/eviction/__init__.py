"""What to delete when space is short: one question, several ways to answer it."""

from tidemill.retention.eviction.baselines import (
    Chance,
    GreedyDual,
    LeastFrequentlyUsed,
    LeastRecentlyUsed,
    Rematerialisation,
)
from tidemill.retention.eviction.store import Algorithm
from tidemill.retention.eviction.two_sided import ChainAware, HitDensity, TwoSided

ALGORITHMS: dict[str, type[Algorithm]] = {
    "hit-density": HitDensity,
    "two-sided": TwoSided,
    "chain-aware": ChainAware,
    "h-dtr": Rematerialisation,
    "gdsf": GreedyDual,
    "lru": LeastRecentlyUsed,
    "lfu": LeastFrequentlyUsed,
    "random": Chance,
}
DEFAULT = "hit-density"

__all__ = ["ALGORITHMS", "DEFAULT", "Algorithm"]
