"""What to delete when space is short: one question, several ways to answer it."""

from tidemill.retain.eviction.chain_aware import ChainAware
from tidemill.retain.eviction.chance import Chance
from tidemill.retain.eviction.dtr import Rematerialisation
from tidemill.retain.eviction.gdsf import GreedyDual
from tidemill.retain.eviction.hit_density import HitDensity
from tidemill.retain.eviction.lfu import LeastFrequentlyUsed
from tidemill.retain.eviction.lru import LeastRecentlyUsed
from tidemill.retain.eviction.store import Algorithm
from tidemill.retain.eviction.two_sided import TwoSided

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
