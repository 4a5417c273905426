"""Drift: what is popular changes as time goes by; what was popular is asked for less and less, but not never."""

from __future__ import annotations

from random import Random

from benchmarks.eviction.submission import Submission, Workshop, zipf

USUAL = {
    "stage 0": (200.0, 400.0),
    "stage 1": (300.0, 200.0),
    "stage 2": (300.0, 200.0),
    "stage 3": (200.0, 100.0),
    "answer": (30.0, 1.0),
}
PIPELINES = 30
EVERY = 12  # submissions after which the most popular one steps back
RENEWED = 0.1  # how often there are new data since a pipeline was last asked


def drift(random: Random, count: int) -> list[Submission]:
    shop = Workshop(random, USUAL, spread=0.9)
    ranking = list(range(PIPELINES))
    loaded = [0] * PIPELINES
    made = []
    for number in range(count):
        if number and number % EVERY == 0:
            ranking.insert(random.randint(3, PIPELINES - 1), ranking.pop(0))
        pipeline = ranking[zipf(random, PIPELINES, skew=1.3)]
        loaded[pipeline] += random.random() < RENEWED
        made.append(_submitted(random, shop, pipeline, loaded[pipeline], number))
    return made


def _submitted(random: Random, shop: Workshop, pipeline: int, loaded: int, number: int) -> Submission:
    """Early stages are shared by all that ask of a pipeline, later ones by some."""
    at = shop.make("stage 0", (pipeline, loaded))
    for stage, choices in ((1, 1), (2, 2), (3, 4)):
        at = shop.make(f"stage {stage}", zipf(random, choices), [at])
    return shop.submission(f"pipeline {pipeline}", [shop.make("answer", number, [at])])
