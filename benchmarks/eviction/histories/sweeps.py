"""Parameter sweeps: one parameter of a pipeline varies over a grid, the others keep their best values so far."""

from __future__ import annotations

from random import Random

from benchmarks.eviction.submission import DatasetFactory, Submission

USUAL = {
    "load": (120.0, 400.0),
    "clean": (300.0, 300.0),
    "features": (600.0, 250.0),
    "train": (900.0, 60.0),
    "score": (60.0, 1.0),
}
STAGES = ("clean", "features", "train")
STAGE_WEIGHTS = (0.08, 0.27, 0.65)  # weights of the stages for the choice of the swept one
PROJECTS = 6
GRID = (3, 9)  # minimum and maximum number of points of a sweep


def generate_sweeps(random: Random, count: int) -> list[Submission]:
    factory = DatasetFactory(random, USUAL)
    best = [dict.fromkeys(STAGES, 0) for _ in range(PROJECTS)]
    last_values = [dict.fromkeys(STAGES, 0) for _ in range(PROJECTS)]
    submissions: list[Submission] = []
    while len(submissions) < count:
        project = random.randrange(PROJECTS)
        stage = random.choices(STAGES, STAGE_WEIGHTS)[0]
        points = [_draw_value(random, last_values[project], stage) for _ in range(random.randint(*GRID))]
        submissions += [_create_pipeline(factory, project, best[project] | {stage: point}) for point in points]
        best[project][stage] = random.choice(points)
    return submissions[:count]


def _draw_value(random: Random, last_values: dict[str, int], stage: str) -> int:
    """Mostly a new value, sometimes a value that was tried before."""
    if last_values[stage] and random.random() < 0.15:
        return random.randint(1, last_values[stage])
    last_values[stage] += 1
    return last_values[stage]


def _create_pipeline(factory: DatasetFactory, project: int, values: dict[str, int]) -> Submission:
    dataset = factory.create_dataset("load", project)
    for stage in STAGES:
        dataset = factory.create_dataset(stage, values[stage], [dataset])
    return factory.create_submission(f"project {project}", [factory.create_dataset("score", "", [dataset])])
