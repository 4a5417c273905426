"""Edited pipelines: somebody works on one task at a time, later ones more often, and sometimes takes an edit back."""

from __future__ import annotations

from random import Random

from benchmarks.eviction.submission import Submission, Workshop
from tidemill.retention.eviction.history import ProducedDataset

PIPELINES = 4
TASKS = 14
USUAL = {f"task {n}": (60.0 + 40.0 * (n % 5), 40.0 * (1 + n % 7)) for n in range(TASKS)}


def edits(random: Random, count: int) -> list[Submission]:
    shop = Workshop(random, USUAL, spread=1.0)
    shapes = [_shape(random) for _ in range(PIPELINES)]
    versions = [[0] * TASKS for _ in range(PIPELINES)]
    newest = [[0] * TASKS for _ in range(PIPELINES)]
    made: list[Submission] = []
    while len(made) < count:
        pipeline = random.randrange(PIPELINES)
        for _ in range(random.randint(1, 12)):  # an afternoon's work
            _edit(random, versions[pipeline], newest[pipeline])
            made.append(_submitted(shop, pipeline, shapes[pipeline], versions[pipeline]))
    return made[:count]


def _shape(random: Random) -> list[list[int]]:
    """For each task the ones that it reads: mostly near ones, so that the graph is deep, with diamonds."""
    return [
        sorted({max(0, n - random.choice((1, 1, 2, 3))) for _ in range(random.randint(1, 2))}) if n else []
        for n in range(TASKS)
    ]


def _edit(random: Random, versions: list[int], newest: list[int]) -> None:
    task = max(random.randrange(TASKS), random.randrange(TASKS))
    if versions[task] and random.random() < 0.2:
        versions[task] = random.randrange(versions[task])
    else:
        newest[task] += 1
        versions[task] = newest[task]


def _submitted(shop: Workshop, pipeline: int, shape: list[list[int]], versions: list[int]) -> Submission:
    made: list[ProducedDataset] = []
    for n, reads in enumerate(shape):
        made.append(shop.make(f"task {n}", (pipeline, versions[n]), [made[r] for r in reads]))
    inner = {r for reads in shape for r in reads}
    return shop.submission(f"pipeline {pipeline}", [m for n, m in enumerate(made) if n not in inner])
