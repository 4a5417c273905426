"""Drift: popularity changes over time; formerly popular pipelines are submitted less and less often."""

from __future__ import annotations

from random import Random

from benchmarks.eviction.submission import DatasetFactory, Submission, zipf

USUAL = {
    "stage 0": (200.0, 400.0),
    "stage 1": (300.0, 200.0),
    "stage 2": (300.0, 200.0),
    "stage 3": (200.0, 100.0),
    "answer": (30.0, 1.0),
}
PIPELINES = 30
DRIFT_INTERVAL = 12  # submissions after which the most popular pipeline loses its rank
RENEWAL_SHARE = 0.1  # probability of new data since the last submission of a pipeline


def generate_drift(random: Random, count: int) -> list[Submission]:
    factory = DatasetFactory(random, USUAL, spread=0.9)
    ranking = list(range(PIPELINES))
    versions = [0] * PIPELINES
    submissions = []
    for number in range(count):
        if number and number % DRIFT_INTERVAL == 0:
            ranking.insert(random.randint(3, PIPELINES - 1), ranking.pop(0))
        pipeline = ranking[zipf(random, PIPELINES, skew=1.3)]
        versions[pipeline] += random.random() < RENEWAL_SHARE
        submissions.append(_create_pipeline(random, factory, pipeline, versions[pipeline], number))
    return submissions


def _create_pipeline(random: Random, factory: DatasetFactory, pipeline: int, version: int, number: int) -> Submission:
    """A submission of a pipeline; all submissions share early stages, some share later ones."""
    dataset = factory.create_dataset("stage 0", (pipeline, version))
    for stage, choices in ((1, 1), (2, 2), (3, 4)):
        dataset = factory.create_dataset(f"stage {stage}", zipf(random, choices), [dataset])
    return factory.create_submission(f"pipeline {pipeline}", [factory.create_dataset("answer", number, [dataset])])
