"""How soon a dataset will be demanded again, learnt from the history.

A dataset that was demanded often and lately will be again. One that is new is judged by its kind: how often datasets
that such tasks made were demanded. And one that is no longer in the latest graph of its series counts as often as
others of its kind, which stood as it does, came back.
"""

from __future__ import annotations

import numpy as np

from tidemill.retention.eviction.history import HALF_LIFE, History
from tidemill.retention.eviction.recency import Standing
from tidemill.retention.eviction.store import Figures, figures

PRIOR = 3.0
"""How many observations what is known of all kinds is worth against those of one kind; and how fast age tells."""


def reuse_rates(history: History) -> Figures:
    """Expected demands a submission, up to a factor that is the same for all."""
    kind = np.array(history.kind)
    age = history.now - figures(history.demanded_at)
    demands = figures(history.demands) * 0.5 ** (age / HALF_LIFE)
    rates: Figures = (demands + _usual(history.kinds.demands, history.kinds.births)[kind]) / (PRIOR + age)
    standing = np.array(history.standings.of)
    returning = _usual(history.kinds.returns, history.kinds.departures)[kind, standing]
    return np.where(standing == Standing.LATEST, rates, rates * returning)


def _usual(events: object, chances: object) -> Figures:
    """The ratio of each kind, drawn towards that of all; never nothing, however little has been seen."""
    many, of = figures(events), figures(chances)
    overall = (many.sum(axis=0) + 1) / (of.sum(axis=0) + 1)
    ratio: Figures = (many + PRIOR * overall) / (of + PRIOR)
    return ratio
