"""Edited pipelines: one task is edited at a time, later tasks more often, and some edits are reverted."""

from __future__ import annotations

from random import Random

from benchmarks.eviction.submission import DatasetFactory, Submission
from tidemill.retention.eviction.history import ProducedDataset

PIPELINES = 4
TASKS = 14
USUAL = {f"task {n}": (60.0 + 40.0 * (n % 5), 40.0 * (1 + n % 7)) for n in range(TASKS)}


def generate_edits(random: Random, count: int) -> list[Submission]:
    factory = DatasetFactory(random, USUAL, spread=1.0)
    graphs = [_draw_graph(random) for _ in range(PIPELINES)]
    versions = [[0] * TASKS for _ in range(PIPELINES)]
    newest = [[0] * TASKS for _ in range(PIPELINES)]
    submissions: list[Submission] = []
    while len(submissions) < count:
        pipeline = random.randrange(PIPELINES)
        for _ in range(random.randint(1, 12)):  # edits of one session
            _edit(random, versions[pipeline], newest[pipeline])
            submissions.append(_create_pipeline(factory, pipeline, graphs[pipeline], versions[pipeline]))
    return submissions[:count]


def _draw_graph(random: Random) -> list[list[int]]:
    """For each task the tasks that it reads: mostly near ones, so that the graph is deep, with diamonds."""
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


def _create_pipeline(factory: DatasetFactory, pipeline: int, graph: list[list[int]], versions: list[int]) -> Submission:
    datasets: list[ProducedDataset] = []
    for n, reads in enumerate(graph):
        datasets.append(factory.create_dataset(f"task {n}", (pipeline, versions[n]), [datasets[r] for r in reads]))
    inner = {r for reads in graph for r in reads}
    return factory.create_submission(f"pipeline {pipeline}", [m for n, m in enumerate(datasets) if n not in inner])
