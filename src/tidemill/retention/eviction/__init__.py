"""What to delete when space is short: one question, several ways to answer it."""

from tidemill.retention.eviction.chain_aware import ChainAware
from tidemill.retention.eviction.chance import Chance
from tidemill.retention.eviction.dtr import Rematerialisation
from tidemill.retention.eviction.gdsf import GreedyDual
from tidemill.retention.eviction.hit_density import HitDensity
from tidemill.retention.eviction.lfu import LeastFrequentlyUsed
from tidemill.retention.eviction.lru import LeastRecentlyUsed
from tidemill.retention.eviction.store import Algorithm
from tidemill.retention.eviction.two_sided import TwoSided

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
