"""Cost of bounded storage: replays of histories of workflows with small budgets, by each eviction algorithm.

Figures are seconds of computing as multiples: of those with unlimited storage, and of those of a greedy algorithm that
knows the future. The histories (`benchmarks/eviction/histories`) were written before any algorithm was tried on them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from random import Random
from statistics import geometric_mean, median
from typing import Any

import numpy as np

from benchmarks.eviction.algorithms import ALGORITHMS, DEFAULT, ClairvoyantEviction, EvictionAlgorithm
from benchmarks.eviction.histories import HISTORIES
from benchmarks.eviction.histories.edits import generate_edits
from benchmarks.eviction.replay import Replay, compute_unlimited_seconds, find_demands, sum_intermediate_bytes
from benchmarks.eviction.submission import Submission
from tidemill.retention.eviction.history import SubmissionHistory
from tidemill.retention.eviction.store import DatasetStore, to_figures

BUDGETS = (5, 10, 20, 50)
"""Per cent of the total size of all intermediate datasets."""
BOUND = "clairvoyant"
FREED_SHARE = 0.05
"""The share of stored bytes that the timed decision frees."""

Figures = dict[tuple[str, str, int], float]
"""Multiples of unlimited storage, by algorithm, history and budget."""


def measure(
    *, submissions: int = 1000, seeds: Sequence[int] = (1,), datasets: int = 100_000, on_progress: Callable[[str], None]
) -> dict[str, Any]:
    """The figures of all algorithms, over one history of each kind for each seed."""
    figures: Figures = {}
    for name, create_history in HISTORIES.items():
        for seed in seeds:
            on_progress(f"{name}, seed {seed}")
            figures |= _replay_history(f"{name} {seed}", create_history(Random(seed), submissions))
    on_progress(f"a decision about {datasets} datasets")
    algorithms = {name: _summarize(figures, name) for name in (*ALGORITHMS, BOUND)}
    default_budgets = {key: value for key, value in algorithms[DEFAULT].items() if key.startswith("budget")}
    against = {f"worst_of_{other}": _find_worst_ratio(figures, DEFAULT, other) for other in ("lru", BOUND)}
    return {
        "default": {"name": DEFAULT, **default_budgets, **against},
        "algorithms": algorithms,
        "decision_s_100k": time_decision(datasets),
        "datasets": datasets,
        "submissions": submissions,
        "seeds": list(seeds),
    }


def _replay_history(history: str, submissions: Sequence[Submission]) -> Figures:
    unlimited_seconds, total_bytes, future = (
        compute_unlimited_seconds(submissions),
        sum_intermediate_bytes(submissions),
        find_demands(submissions),
    )
    return {
        (name, history, budget): Replay(algorithm, total_bytes * budget / 100).run(submissions).seconds
        / unlimited_seconds
        for budget in BUDGETS
        for name, algorithm in _create_algorithms(future).items()
    }


def _create_algorithms(future: Mapping[str, Sequence[int]]) -> dict[str, EvictionAlgorithm]:
    return {name: create() for name, create in ALGORITHMS.items()} | {BOUND: ClairvoyantEviction(future)}


def _summarize(figures: Figures, name: str) -> dict[str, Any]:
    """Geometric means over the histories, and each history at the smallest budget."""
    means = {f"budget_{b}pct": _compute_mean(_select_figures(figures, name, b).values()) for b in BUDGETS}
    over_bound = {
        f"over_bound_{b}pct": _compute_mean(_compute_ratios(figures, name, BOUND, b).values()) for b in BUDGETS
    }
    return (
        means
        | over_bound
        | {"histories_5pct": {h: round(v, 3) for h, v in _select_figures(figures, name, BUDGETS[0]).items()}}
    )


def _select_figures(figures: Figures, name: str, budget: int) -> dict[str, float]:
    return {h: value for (n, h, b), value in figures.items() if (n, b) == (name, budget)}


def _compute_ratios(figures: Figures, name: str, other: str, budget: int) -> dict[str, float]:
    other_figures = _select_figures(figures, other, budget)
    return {h: value / other_figures[h] for h, value in _select_figures(figures, name, budget).items()}


def _find_worst_ratio(figures: Figures, name: str, other: str) -> float:
    """The largest ratio of two algorithms over histories and budgets: below 1, the first is always better."""
    return round(max(v for b in BUDGETS for v in _compute_ratios(figures, name, other, b).values()), 3)


def _compute_mean(values: Iterable[float]) -> float:
    return round(geometric_mean(values), 3)


def time_decision(datasets: int, rounds: int = 5) -> float:
    """CPU seconds of one decision of the default algorithm, median of rounds."""
    history, store = _build_full_store(datasets)
    amount = FREED_SHARE * float(store.bytes[store.evictable].sum())
    return round(
        median(
            _time_action(lambda: ALGORITHMS[DEFAULT]().choose_datasets(history, store, amount)) for _ in range(rounds)
        ),
        3,
    )


def _build_full_store(datasets: int) -> tuple[SubmissionHistory, DatasetStore]:
    """A store of intermediate datasets of edited pipelines; half as many others have been deleted."""
    history, random = SubmissionHistory(), Random(1)
    for submission in generate_edits(random, datasets * 3 // 5):
        history.record_submission(submission.series, submission.graph)
    inner = [number for number, children in enumerate(history.children) if children]
    movable = np.array(sorted(random.sample(inner, min(datasets, len(inner) * 2 // 3))))
    stored = np.ones(len(history), dtype=np.bool_)
    stored[inner] = False
    stored[movable] = True
    return history, DatasetStore(stored, movable, to_figures(history.seconds), to_figures(history.bytes))


def _time_action(action: Callable[[], object]) -> float:
    began = time.process_time()
    action()
    return time.process_time() - began
