"""What bounded storage costs: histories of workflows lived through under small budgets, by each algorithm.

Figures are seconds of computing as multiples: of those with unlimited storage, and of those of a greedy algorithm that
knows the future. The histories (`sim/storage/histories`) were written before any algorithm was tried on them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from random import Random
from statistics import geometric_mean, median
from typing import Any

import numpy as np

from benchmarks.eviction.histories import HISTORIES
from benchmarks.eviction.histories.edits import edits
from benchmarks.eviction.replay import Replay, demands, intermediate_bytes, unlimited
from benchmarks.eviction.submission import Submission
from tidemill.retention.eviction import ALGORITHMS, DEFAULT
from tidemill.retention.eviction.history import SubmissionHistory
from tidemill.retention.eviction.store import DatasetStore, EvictionAlgorithm, to_figures
from tidemill.retention.eviction.two_sided import ClairvoyantEviction

BUDGETS = (5, 10, 20, 50)
"""Per cent of what all intermediate datasets hold together."""
BOUND = "clairvoyant"
FREED = 0.05
"""The share of what is stored that the timed decision is to free."""

Figures = dict[tuple[str, str, int], float]
"""Multiples of unlimited storage, by algorithm, history and budget."""


def measure(
    *, submissions: int = 1000, seeds: Sequence[int] = (1,), datasets: int = 100_000, tell: Callable[[str], None]
) -> dict[str, Any]:
    """The figures of all algorithms; several seeds are several histories of each kind."""
    found: Figures = {}
    for name, make in HISTORIES.items():
        for seed in seeds:
            tell(f"{name}, seed {seed}")
            found |= _lived(f"{name} {seed}", make(Random(seed), submissions))
    tell(f"a decision about {datasets} datasets")
    algorithms = {name: _summary(found, name) for name in (*ALGORITHMS, BOUND)}
    own = {key: value for key, value in algorithms[DEFAULT].items() if key.startswith("budget")}
    against = {f"worst_of_{other}": _worst(found, DEFAULT, other) for other in ("lru", BOUND)}
    return {
        "default": {"name": DEFAULT, **own, **against},
        "algorithms": algorithms,
        "decision_s_100k": decision_seconds(datasets),
        "datasets": datasets,
        "submissions": submissions,
        "seeds": list(seeds),
    }


def _lived(history: str, submissions: Sequence[Submission]) -> Figures:
    free, space, future = unlimited(submissions), intermediate_bytes(submissions), demands(submissions)
    return {
        (name, history, budget): Replay(algorithm, space * budget / 100).live(submissions).seconds / free
        for budget in BUDGETS
        for name, algorithm in _all(future).items()
    }


def _all(future: Mapping[str, Sequence[int]]) -> dict[str, EvictionAlgorithm]:
    return {name: make() for name, make in ALGORITHMS.items()} | {BOUND: ClairvoyantEviction(future)}


def _summary(found: Figures, name: str) -> dict[str, Any]:
    """Geometric means over the histories, and each history at the smallest budget."""
    means = {f"budget_{b}pct": _mean(_of(found, name, b).values()) for b in BUDGETS}
    over = {f"over_bound_{b}pct": _mean(_ratios(found, name, BOUND, b).values()) for b in BUDGETS}
    return means | over | {"histories_5pct": {h: round(v, 3) for h, v in _of(found, name, BUDGETS[0]).items()}}


def _of(found: Figures, name: str, budget: int) -> dict[str, float]:
    return {h: value for (n, h, b), value in found.items() if (n, b) == (name, budget)}


def _ratios(found: Figures, name: str, other: str, budget: int) -> dict[str, float]:
    theirs = _of(found, other, budget)
    return {h: value / theirs[h] for h, value in _of(found, name, budget).items()}


def _worst(found: Figures, name: str, other: str) -> float:
    """The largest ratio of two algorithms on any history and under any budget: below 1, the first is always better."""
    return round(max(v for b in BUDGETS for v in _ratios(found, name, other, b).values()), 3)


def _mean(values: Iterable[float]) -> float:
    return round(geometric_mean(values), 3)


def decision_seconds(datasets: int, rounds: int = 5) -> float:
    """CPU seconds of one decision of the default algorithm, the median of rounds."""
    history, store = _full(datasets)
    amount = FREED * float(store.bytes[store.evictable].sum())
    return round(
        median(_seconds(lambda: ALGORITHMS[DEFAULT]().choose_datasets(history, store, amount)) for _ in range(rounds)),
        3,
    )


def _full(datasets: int) -> tuple[SubmissionHistory, DatasetStore]:
    """So many stored intermediate datasets of edited pipelines; half as many again have been deleted."""
    history, random = SubmissionHistory(), Random(1)
    for submission in edits(random, datasets * 3 // 5):
        history.record_submission(submission.series, submission.graph)
    inner = [number for number, children in enumerate(history.children) if children]
    movable = np.array(sorted(random.sample(inner, min(datasets, len(inner) * 2 // 3))))
    stored = np.ones(len(history), dtype=np.bool_)
    stored[inner] = False
    stored[movable] = True
    return history, DatasetStore(stored, movable, to_figures(history.seconds), to_figures(history.bytes))


def _seconds(action: Callable[[], object]) -> float:
    began = time.process_time()
    action()
    return time.process_time() - began
