"""Hit density: two-sided, with demands foretold by how long others of the kind, as popular, waited for theirs.

The wait is counted in submissions of those who asked before (`series.py`), and they are expected as often as they came.

A dataset is worth the demands that it will meet for the time for which it holds space until then; that is the idea of
LHD (Beckmann, Chen, Cidon: "LHD: Improving Cache Hit Rate by Maximizing Hit Density", NSDI 2018). What waits tell is
coarse where few were seen, so the plain rate has as much of a say: neither was better than their geometric mean.
"""

from __future__ import annotations

import numpy as np

from tidemill.retention.eviction.history import History
from tidemill.retention.eviction.rates import reuse_rates
from tidemill.retention.eviction.store import Figures, Store, figures
from tidemill.retention.eviction.two_sided import cheapest


class HitDensity:
    def choose(self, history: History, store: Store, amount: float) -> list[int]:
        return cheapest(history, store, amount, np.sqrt(reuse_rates(history) * foretold_rates(history)))


def foretold_rates(history: History) -> Figures:
    """Only what something was made from is learnt from: leaves are never demanded."""
    inner = np.fromiter(map(bool, history.children), np.bool_, len(history))
    waited = history.series.all_passed(len(history)) - figures(history.since)
    kind, mood, before = np.array(history.kind), np.array(history.mood), figures(history.before)
    own = history.waits.rates(kind, mood, before, waited, inner)
    rates: Figures = own * history.series.rates(len(history))
    return rates
