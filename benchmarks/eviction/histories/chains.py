"""Incremental chains: each state is derived from the one before and new data; some submissions branch off."""

from __future__ import annotations

from random import Random

from benchmarks.eviction.submission import DatasetFactory, Submission
from tidemill.retention.eviction.history import ProducedDataset

USUAL = {
    "parse": (60.0, 50.0),
    "state": (100.0, 300.0),
    "report": (30.0, 1.0),
}
CHAINS = 5
BRANCH = 0.06
MEAN_BRANCH_STEPS = 12  # steps that a branch goes back, on average


def generate_chains(random: Random, count: int) -> list[Submission]:
    factory = DatasetFactory(random, USUAL, spread=0.5)
    states: list[list[ProducedDataset]] = [[] for _ in range(CHAINS)]
    submissions: list[Submission] = []
    while len(submissions) < count:
        chain = random.randrange(CHAINS)
        if states[chain] and random.random() < BRANCH:
            submissions.append(_create_branch(random, factory, chain, states[chain], len(submissions)))
        else:
            states[chain].append(_create_next_state(factory, chain, states[chain], len(states[chain]), "main"))
            submissions.append(
                factory.create_submission(f"chain {chain}", [factory.create_dataset("report", "", [states[chain][-1]])])
            )
    return submissions


def _create_next_state(
    factory: DatasetFactory, chain: int, before: list[ProducedDataset], step: int, name: str
) -> ProducedDataset:
    return factory.create_dataset("state", name, [*before[-1:], factory.create_dataset("parse", (chain, step))])


def _create_branch(
    random: Random, factory: DatasetFactory, chain: int, states: list[ProducedDataset], number: int
) -> Submission:
    """An alternative history from some steps back to the present."""
    first = max(0, len(states) - 1 - int(random.expovariate(1 / MEAN_BRANCH_STEPS)))
    other = states[:first]
    for step in range(first, len(states)):
        other.append(_create_next_state(factory, chain, other, step, f"branch {number}"))
    return factory.create_submission(f"branches of {chain}", [factory.create_dataset("report", "", [other[-1]])])
