"""Parameter sweeps: one parameter of a pipeline is tried over a grid, the others stay at the best values so far."""

from __future__ import annotations

from random import Random

from benchmarks.eviction.submission import Submission, Workshop

USUAL = {
    "load": (120.0, 400.0),
    "clean": (300.0, 300.0),
    "features": (600.0, 250.0),
    "train": (900.0, 60.0),
    "score": (60.0, 1.0),
}
STAGES = ("clean", "features", "train")
OFTEN = (0.08, 0.27, 0.65)  # how often each stage is the one that is swept
PROJECTS = 6
GRID = (3, 9)  # points of a sweep, at least and at most


def sweeps(random: Random, count: int) -> list[Submission]:
    shop = Workshop(random, USUAL)
    best = [dict.fromkeys(STAGES, 0) for _ in range(PROJECTS)]
    tried = [dict.fromkeys(STAGES, 0) for _ in range(PROJECTS)]
    made: list[Submission] = []
    while len(made) < count:
        project = random.randrange(PROJECTS)
        stage = random.choices(STAGES, OFTEN)[0]
        points = [_point(random, tried[project], stage) for _ in range(random.randint(*GRID))]
        made += [_submitted(shop, project, best[project] | {stage: point}) for point in points]
        best[project][stage] = random.choice(points)
    return made[:count]


def _point(random: Random, tried: dict[str, int], stage: str) -> int:
    """Mostly a value that was never tried; sometimes one that was."""
    if tried[stage] and random.random() < 0.15:
        return random.randint(1, tried[stage])
    tried[stage] += 1
    return tried[stage]


def _submitted(shop: Workshop, project: int, values: dict[str, int]) -> Submission:
    at = shop.make("load", project)
    for stage in STAGES:
        at = shop.make(stage, values[stage], [at])
    return shop.submission(f"project {project}", [shop.make("score", "", [at])])
