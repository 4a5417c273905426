"""Small random histories with a store that holds a part of their datasets."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from tidemill.retention.eviction.history import ProducedDataset, SubmissionHistory
from tidemill.retention.eviction.store import DatasetStore, to_figures


@st.composite
def random_stores(
    draw: st.DrawFn, max_size: int = 10, make: type[SubmissionHistory] = SubmissionHistory
) -> tuple[SubmissionHistory, DatasetStore]:
    """Several submissions over one graph; a random part of its datasets is stored, and a part of that is evictable."""
    size = draw(st.integers(1, max_size))
    datasets: list[ProducedDataset] = []
    for n in range(size):
        parents = draw(st.lists(st.sampled_from(range(n)), unique=True, max_size=3)) if n else []
        names = tuple(datasets[p].identity for p in parents)
        seconds, weight = draw(st.integers(1, 9)), draw(st.integers(1, 9))
        datasets.append(ProducedDataset(f"d{n}", names, f"kind {n % 3}", float(seconds), weight))
    history = make()
    for _ in range(draw(st.integers(1, 4))):
        upto = draw(st.integers(1, size))
        history.record_submission(draw(st.sampled_from("ab")), datasets[:upto])
    stored = np.array(draw(st.lists(st.booleans(), min_size=len(history), max_size=len(history))))
    free = np.array(draw(st.lists(st.booleans(), min_size=len(history), max_size=len(history))))
    evictable = np.flatnonzero(stored & free)
    return history, DatasetStore(stored, evictable, to_figures(history.seconds), to_figures(history.bytes))
