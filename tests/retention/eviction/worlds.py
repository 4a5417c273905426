"""Small random worlds: a history with a store, some of it missing."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from tidemill.retention.eviction.history import History, Made
from tidemill.retention.eviction.store import Store, figures


@st.composite
def worlds(draw: st.DrawFn, most: int = 10) -> tuple[History, Store]:
    """Several submissions over one graph; a random part of its datasets is stored, and a part of that may go."""
    size = draw(st.integers(1, most))
    made: list[Made] = []
    for n in range(size):
        parents = draw(st.lists(st.sampled_from(range(n)), unique=True, max_size=3)) if n else []
        names = tuple(made[p].identity for p in parents)
        seconds, weight = draw(st.integers(1, 9)), draw(st.integers(1, 9))
        made.append(Made(f"d{n}", names, f"kind {n % 3}", float(seconds), weight))
    history = History()
    for _ in range(draw(st.integers(1, 4))):
        upto = draw(st.integers(1, size))
        history.submit(draw(st.sampled_from("ab")), made[:upto])
    for number in draw(st.lists(st.sampled_from(range(len(history))))):
        history.used(number)
    stored = np.array(draw(st.lists(st.booleans(), min_size=len(history), max_size=len(history))))
    free = np.array(draw(st.lists(st.booleans(), min_size=len(history), max_size=len(history))))
    movable = np.flatnonzero(stored & free)
    return history, Store(stored, movable, figures(history.seconds), figures(history.bytes))
