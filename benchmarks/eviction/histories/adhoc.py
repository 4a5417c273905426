"""Ad hoc: each user explores step by step, mostly from the last dataset, sometimes from an earlier one."""

from __future__ import annotations

from random import Random

from benchmarks.eviction.submission import DatasetFactory, Submission
from tidemill.retention.eviction.history import ProducedDataset

USUAL = {
    "source": (300.0, 600.0),
    "step": (120.0, 120.0),
    "combine": (240.0, 150.0),
    "look": (15.0, 1.0),
}
USERS = 8


def generate_adhoc(random: Random, count: int) -> list[Submission]:
    factory = DatasetFactory(random, USUAL, spread=1.0)
    explored: list[list[ProducedDataset]] = [[factory.create_dataset("source", user)] for user in range(USERS)]
    return [_create_exploration(random, factory, random.randrange(USERS), explored, number) for number in range(count)]


def _create_exploration(
    random: Random, factory: DatasetFactory, user: int, explored: list[list[ProducedDataset]], number: int
) -> Submission:
    datasets = explored[user]
    current = datasets[-1 - min(len(datasets) - 1, int(random.expovariate(1 / 3)))]
    for step in range(random.randint(1, 3)):
        current = _create_step(random, factory, current, datasets, f"{number}.{step}")
        datasets.append(current)
    if random.random() < 0.05:
        datasets.append(factory.create_dataset("source", f"{user}, {number}"))
    return factory.create_submission(f"user {user}", [factory.create_dataset("look", number, [current])])


def _create_step(
    random: Random, factory: DatasetFactory, current: ProducedDataset, datasets: list[ProducedDataset], name: str
) -> ProducedDataset:
    other = random.choice(datasets)
    if other is not current and random.random() < 0.15:
        return factory.create_dataset("combine", name, [current, other])
    return factory.create_dataset("step", name, [current])
